; LLVM IR of model.c: written by tools/build_policy_model, not by hand.

%struct.uvm_gpu_root_chunk_struct = type { %struct.uvm_gpu_chunk_struct, i64, i32 }
%struct.uvm_gpu_chunk_struct = type { i64, i64, %struct.list_head, ptr }
%struct.list_head = type { ptr, ptr }
%struct.uvm_va_block_struct = type { ptr, i64, i64, ptr, %struct.uvm_page_mask_t }
%struct.uvm_page_mask_t = type { [8 x i64] }
%struct.tenant = type { %struct.task_struct, %struct.mm_struct, %struct.uvm_va_space_struct, %struct.uvm_va_range_managed_struct }
%struct.task_struct = type { i32, i32, [16 x i8] }
%struct.mm_struct = type { ptr }
%struct.uvm_va_space_struct = type { %struct.uvm_va_space_mm_struct }
%struct.uvm_va_space_mm_struct = type { ptr }
%struct.uvm_va_range_managed_struct = type { %struct.uvm_va_range_struct }
%struct.uvm_va_range_struct = type { ptr }
%struct.accel_lab_decision = type { i32, i16, i16, i8, i8, i16 }

@zeros = internal constant i64 0, align 8
@accel_arena = external local_unnamed_addr constant i64, align 8
@accel_arena_size = external local_unnamed_addr constant i64, align 8

define dso_local ptr @accel_object(i64 noundef %0, i64 noundef %1) local_unnamed_addr #0 {
  %3 = load i64, ptr @accel_arena_size, align 8
  %4 = icmp uge i64 %3, %1
  %5 = load i64, ptr @accel_arena, align 8
  %6 = sub i64 %0, %5
  %7 = sub i64 %3, %1
  %8 = icmp ule i64 %6, %7
  %9 = select i1 %4, i1 %8, i1 false
  %10 = inttoptr i64 %0 to ptr
  %11 = select i1 %9, ptr %10, ptr @zeros
  ret ptr %11
}

define dso_local range(i64 0, 4294967296) i64 @accel_helper_7(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #1 {
  %6 = load i64, ptr @accel_arena, align 8
  %7 = inttoptr i64 %6 to ptr
  %8 = getelementptr inbounds i8, ptr %7, i64 320
  %9 = load i64, ptr %8, align 8
  %10 = shl i64 %9, 13
  %11 = xor i64 %10, %9
  %12 = lshr i64 %11, 7
  %13 = xor i64 %12, %11
  %14 = shl i64 %13, 17
  %15 = xor i64 %14, %13
  store i64 %15, ptr %8, align 8
  %16 = lshr i64 %15, 32
  ret i64 %16
}

define dso_local noundef i64 @accel_helper_16(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  %6 = icmp eq i64 %1, 0
  br i1 %6, label %12, label %7

7:                                                ; preds = %5
  %8 = load i64, ptr @accel_arena, align 8
  %9 = inttoptr i64 %8 to ptr
  %10 = getelementptr inbounds i8, ptr %9, i64 312
  %11 = inttoptr i64 %0 to ptr
  br label %13

12:                                               ; preds = %24, %5
  ret i64 0

13:                                               ; preds = %7, %24
  %14 = phi i64 [ 0, %7 ], [ %15, %24 ]
  %15 = add nuw i64 %14, 1
  %16 = icmp ult i64 %15, %1
  %17 = icmp ult i64 %14, 16
  %18 = and i1 %17, %16
  br i1 %18, label %19, label %24

19:                                               ; preds = %13
  %20 = load ptr, ptr %10, align 8
  %21 = getelementptr inbounds i8, ptr %20, i64 8
  %22 = getelementptr inbounds [16 x i8], ptr %21, i64 0, i64 %14
  %23 = load i8, ptr %22, align 1
  br label %24

24:                                               ; preds = %13, %19
  %25 = phi i8 [ %23, %19 ], [ 0, %13 ]
  %26 = getelementptr inbounds i8, ptr %11, i64 %14
  store i8 %25, ptr %26, align 1
  %27 = icmp eq i64 %15, %1
  br i1 %27, label %12, label %13
}

define dso_local range(i64 -14, 1) i64 @accel_helper_113(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #3 {
  %6 = load i64, ptr @accel_arena_size, align 8
  %7 = icmp uge i64 %6, %1
  %8 = load i64, ptr @accel_arena, align 8
  %9 = sub i64 %2, %8
  %10 = sub i64 %6, %1
  %11 = icmp ule i64 %9, %10
  %12 = select i1 %7, i1 %11, i1 false
  br i1 %12, label %21, label %13

13:                                               ; preds = %5
  %14 = tail call ptr @llvm.frameaddress.p0(i32 0)
  %15 = ptrtoint ptr %14 to i64
  %16 = sub i64 %2, %15
  %17 = icmp ult i64 %16, 16384
  %18 = sub i64 16384, %16
  %19 = icmp uge i64 %18, %1
  %20 = and i1 %17, %19
  br label %21

21:                                               ; preds = %13, %5
  %22 = phi i1 [ true, %5 ], [ %20, %13 ]
  %23 = icmp eq i64 %1, 0
  br i1 %23, label %27, label %24

24:                                               ; preds = %21
  %25 = inttoptr i64 %2 to ptr
  %26 = inttoptr i64 %0 to ptr
  br label %29

27:                                               ; preds = %34, %21
  %28 = select i1 %22, i64 0, i64 -14
  ret i64 %28

29:                                               ; preds = %24, %34
  %30 = phi i64 [ 0, %24 ], [ %37, %34 ]
  br i1 %22, label %31, label %34

31:                                               ; preds = %29
  %32 = getelementptr inbounds i8, ptr %25, i64 %30
  %33 = load i8, ptr %32, align 1
  br label %34

34:                                               ; preds = %29, %31
  %35 = phi i8 [ %33, %31 ], [ 0, %29 ]
  %36 = getelementptr inbounds i8, ptr %26, i64 %30
  store i8 %35, ptr %36, align 1
  %37 = add nuw i64 %30, 1
  %38 = icmp eq i64 %37, %1
  br i1 %38, label %27, label %29
}

declare ptr @llvm.frameaddress.p0(i32 immarg) #4

define dso_local noundef i64 @accel_helper_177(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  ret i64 0
}

define dso_local range(i64 0, 5) i64 @accel_helper_10000(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #1 {
  %6 = inttoptr i64 %0 to ptr
  %7 = getelementptr inbounds i8, ptr %6, i64 1
  %8 = load i8, ptr %7, align 1
  %9 = icmp eq i8 %8, 0
  br i1 %9, label %10, label %25

10:                                               ; preds = %5
  %11 = load i8, ptr %6, align 8
  %12 = icmp eq i8 %11, 0
  br i1 %12, label %22, label %13

13:                                               ; preds = %10
  %14 = getelementptr inbounds i8, ptr %6, i64 8
  %15 = load i64, ptr %14, align 8
  %16 = icmp eq i64 %15, %1
  br i1 %16, label %17, label %21

17:                                               ; preds = %13
  %18 = getelementptr inbounds i8, ptr %6, i64 16
  %19 = load i64, ptr %18, align 8
  %20 = icmp eq i64 %19, %2
  br i1 %20, label %25, label %21

21:                                               ; preds = %17, %13
  store i8 1, ptr %7, align 1
  br label %25

22:                                               ; preds = %10
  store i8 1, ptr %6, align 8
  %23 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %23, align 8
  %24 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %24, align 8
  br label %25

25:                                               ; preds = %17, %5, %22, %21
  %26 = phi i64 [ 4, %21 ], [ 0, %22 ], [ 4, %5 ], [ 2, %17 ]
  ret i64 %26
}

define dso_local range(i64 0, 5) i64 @accel_helper_10001(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #1 {
  %6 = inttoptr i64 %0 to ptr
  %7 = getelementptr inbounds i8, ptr %6, i64 48
  %8 = getelementptr inbounds i8, ptr %6, i64 49
  %9 = load i8, ptr %8, align 1
  %10 = icmp eq i8 %9, 0
  br i1 %10, label %11, label %26

11:                                               ; preds = %5
  %12 = load i8, ptr %7, align 8
  %13 = icmp eq i8 %12, 0
  br i1 %13, label %23, label %14

14:                                               ; preds = %11
  %15 = getelementptr inbounds i8, ptr %6, i64 56
  %16 = load i64, ptr %15, align 8
  %17 = icmp eq i64 %16, %1
  br i1 %17, label %18, label %22

18:                                               ; preds = %14
  %19 = getelementptr inbounds i8, ptr %6, i64 64
  %20 = load i64, ptr %19, align 8
  %21 = icmp eq i64 %20, %2
  br i1 %21, label %26, label %22

22:                                               ; preds = %18, %14
  store i8 1, ptr %8, align 1
  br label %26

23:                                               ; preds = %11
  store i8 1, ptr %7, align 8
  %24 = getelementptr inbounds i8, ptr %6, i64 56
  store i64 %1, ptr %24, align 8
  %25 = getelementptr inbounds i8, ptr %6, i64 64
  store i64 %2, ptr %25, align 8
  br label %26

26:                                               ; preds = %18, %5, %23, %22
  %27 = phi i64 [ 4, %22 ], [ 0, %23 ], [ 4, %5 ], [ 2, %18 ]
  ret i64 %27
}

define dso_local range(i64 0, 5) i64 @accel_helper_10002(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #1 {
  %6 = inttoptr i64 %0 to ptr
  %7 = getelementptr inbounds i8, ptr %6, i64 32
  %8 = getelementptr inbounds i8, ptr %6, i64 40
  %9 = load i64, ptr %8, align 8
  %10 = icmp eq i64 %9, 0
  br i1 %10, label %11, label %22

11:                                               ; preds = %5
  %12 = load i64, ptr %7, align 8
  %13 = icmp eq i64 %12, 0
  br i1 %13, label %20, label %14

14:                                               ; preds = %11
  %15 = getelementptr inbounds i8, ptr %6, i64 48
  %16 = load i64, ptr %15, align 8
  %17 = icmp ne i64 %16, %1
  %18 = zext i1 %17 to i64
  store i64 %18, ptr %8, align 8
  %19 = select i1 %17, i64 4, i64 2
  br label %22

20:                                               ; preds = %11
  store i64 1, ptr %7, align 8
  %21 = getelementptr inbounds i8, ptr %6, i64 48
  store i64 %1, ptr %21, align 8
  br label %22

22:                                               ; preds = %5, %14, %20
  %23 = phi i64 [ %19, %14 ], [ 0, %20 ], [ 4, %5 ]
  ret i64 %23
}

define dso_local range(i64 0, 5) i64 @accel_helper_10003(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #1 {
  %6 = inttoptr i64 %0 to ptr
  %7 = getelementptr inbounds i8, ptr %6, i64 56
  %8 = and i64 %1, 4294967295
  %9 = getelementptr inbounds i8, ptr %6, i64 64
  %10 = load i64, ptr %9, align 8
  %11 = icmp eq i64 %10, 0
  br i1 %11, label %12, label %23

12:                                               ; preds = %5
  %13 = load i64, ptr %7, align 8
  %14 = icmp eq i64 %13, 0
  br i1 %14, label %21, label %15

15:                                               ; preds = %12
  %16 = getelementptr inbounds i8, ptr %6, i64 72
  %17 = load i64, ptr %16, align 8
  %18 = icmp ne i64 %17, %8
  %19 = zext i1 %18 to i64
  store i64 %19, ptr %9, align 8
  %20 = select i1 %18, i64 4, i64 2
  br label %23

21:                                               ; preds = %12
  store i64 1, ptr %7, align 8
  %22 = getelementptr inbounds i8, ptr %6, i64 72
  store i64 %8, ptr %22, align 8
  br label %23

23:                                               ; preds = %5, %15, %21
  %24 = phi i64 [ %20, %15 ], [ 0, %21 ], [ 4, %5 ]
  ret i64 %24
}

define dso_local noundef i64 @accel_helper_10004(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #5 {
  %6 = inttoptr i64 %0 to ptr
  %7 = getelementptr inbounds i8, ptr %6, i64 28
  store i32 0, ptr %7, align 4
  ret i64 0
}

define dso_local range(i64 0, 5) i64 @accel_helper_10005(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #1 {
  %6 = inttoptr i64 %0 to ptr
  %7 = getelementptr inbounds i8, ptr %6, i64 40
  %8 = getelementptr inbounds i8, ptr %6, i64 48
  %9 = load i64, ptr %8, align 8
  %10 = icmp eq i64 %9, 0
  br i1 %10, label %11, label %22

11:                                               ; preds = %5
  %12 = load i64, ptr %7, align 8
  %13 = icmp eq i64 %12, 0
  br i1 %13, label %20, label %14

14:                                               ; preds = %11
  %15 = getelementptr inbounds i8, ptr %6, i64 56
  %16 = load i64, ptr %15, align 8
  %17 = icmp ne i64 %16, %1
  %18 = zext i1 %17 to i64
  store i64 %18, ptr %8, align 8
  %19 = select i1 %17, i64 4, i64 2
  br label %22

20:                                               ; preds = %11
  store i64 1, ptr %7, align 8
  %21 = getelementptr inbounds i8, ptr %6, i64 56
  store i64 %1, ptr %21, align 8
  br label %22

22:                                               ; preds = %5, %14, %20
  %23 = phi i64 [ %19, %14 ], [ 0, %20 ], [ 4, %5 ]
  ret i64 %23
}

define dso_local range(i64 -5, 1) i64 @accel_helper_10006(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #1 {
  %6 = trunc i64 %1 to i32
  %7 = add i32 %6, -1
  %8 = trunc i64 %0 to i32
  %9 = icmp eq i32 %8, %6
  br i1 %9, label %10, label %29

10:                                               ; preds = %5
  %11 = zext i32 %7 to i64
  %12 = load i64, ptr @accel_arena, align 8
  %13 = inttoptr i64 %12 to ptr
  %14 = getelementptr inbounds i8, ptr %13, i64 296
  %15 = load i64, ptr %14, align 8
  %16 = icmp ule i64 %15, %11
  %17 = icmp ugt i32 %7, 255
  %18 = or i1 %17, %16
  br i1 %18, label %29, label %19

19:                                               ; preds = %10
  %20 = and i32 %7, 63
  %21 = zext nneg i32 %20 to i64
  %22 = shl nuw i64 1, %21
  %23 = getelementptr inbounds i8, ptr %13, i64 520
  %24 = lshr i32 %7, 6
  %25 = zext nneg i32 %24 to i64
  %26 = getelementptr inbounds [4 x i64], ptr %23, i64 0, i64 %25
  %27 = load i64, ptr %26, align 8
  %28 = or i64 %27, %22
  store i64 %28, ptr %26, align 8
  br label %29

29:                                               ; preds = %5, %10, %19
  %30 = phi i64 [ 0, %19 ], [ -5, %10 ], [ -5, %5 ]
  ret i64 %30
}

define dso_local i32 @accel_lab_page_prefetch(i16 noundef zeroext %0, ptr noundef %1, ptr noundef %2, ptr noundef %3) local_unnamed_addr #6 {
  %5 = alloca [4 x i64], align 8
  %6 = zext i16 %0 to i64
  store i64 %6, ptr %5, align 8
  %7 = getelementptr inbounds i8, ptr %5, i64 8
  %8 = ptrtoint ptr %1 to i64
  store i64 %8, ptr %7, align 8
  %9 = getelementptr inbounds i8, ptr %5, i64 16
  %10 = ptrtoint ptr %2 to i64
  store i64 %10, ptr %9, align 8
  %11 = getelementptr inbounds i8, ptr %5, i64 24
  %12 = ptrtoint ptr %3 to i64
  store i64 %12, ptr %11, align 8
  %13 = call i64 @policy_gpu_page_prefetch(ptr noundef nonnull %5) #14
  %14 = trunc i64 %13 to i32
  ret i32 %14
}

declare i64 @policy_gpu_page_prefetch(ptr noundef) local_unnamed_addr #7

define dso_local i32 @accel_lab_page_prefetch_iter(ptr noundef %0, ptr noundef %1, ptr noundef %2, i32 noundef %3, ptr noundef %4) local_unnamed_addr #6 {
  %6 = alloca [5 x i64], align 8
  %7 = ptrtoint ptr %0 to i64
  store i64 %7, ptr %6, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 8
  %9 = ptrtoint ptr %1 to i64
  store i64 %9, ptr %8, align 8
  %10 = getelementptr inbounds i8, ptr %6, i64 16
  %11 = ptrtoint ptr %2 to i64
  store i64 %11, ptr %10, align 8
  %12 = getelementptr inbounds i8, ptr %6, i64 24
  %13 = zext i32 %3 to i64
  store i64 %13, ptr %12, align 8
  %14 = getelementptr inbounds i8, ptr %6, i64 32
  %15 = ptrtoint ptr %4 to i64
  store i64 %15, ptr %14, align 8
  %16 = call i64 @policy_gpu_page_prefetch_iter(ptr noundef nonnull %6) #14
  %17 = trunc i64 %16 to i32
  ret i32 %17
}

declare i64 @policy_gpu_page_prefetch_iter(ptr noundef) local_unnamed_addr #7

define dso_local i32 @accel_lab_block_activate(ptr noundef %0, ptr noundef %1, ptr noundef %2) local_unnamed_addr #6 {
  %4 = alloca [3 x i64], align 8
  %5 = ptrtoint ptr %0 to i64
  store i64 %5, ptr %4, align 8
  %6 = getelementptr inbounds i8, ptr %4, i64 8
  %7 = ptrtoint ptr %1 to i64
  store i64 %7, ptr %6, align 8
  %8 = getelementptr inbounds i8, ptr %4, i64 16
  %9 = ptrtoint ptr %2 to i64
  store i64 %9, ptr %8, align 8
  %10 = call i64 @policy_gpu_block_activate(ptr noundef nonnull %4) #14
  %11 = trunc i64 %10 to i32
  ret i32 %11
}

declare i64 @policy_gpu_block_activate(ptr noundef) local_unnamed_addr #7

define dso_local i32 @accel_lab_block_access(ptr noundef %0, ptr noundef %1, ptr noundef %2) local_unnamed_addr #6 {
  %4 = alloca [3 x i64], align 8
  %5 = ptrtoint ptr %0 to i64
  store i64 %5, ptr %4, align 8
  %6 = getelementptr inbounds i8, ptr %4, i64 8
  %7 = ptrtoint ptr %1 to i64
  store i64 %7, ptr %6, align 8
  %8 = getelementptr inbounds i8, ptr %4, i64 16
  %9 = ptrtoint ptr %2 to i64
  store i64 %9, ptr %8, align 8
  %10 = call i64 @policy_gpu_block_access(ptr noundef nonnull %4) #14
  %11 = trunc i64 %10 to i32
  ret i32 %11
}

declare i64 @policy_gpu_block_access(ptr noundef) local_unnamed_addr #7

define dso_local i32 @accel_lab_evict_prepare(ptr noundef %0) local_unnamed_addr #6 {
  %2 = alloca [3 x i64], align 8
  %3 = getelementptr inbounds i8, ptr %0, i64 16
  %4 = ptrtoint ptr %3 to i64
  %5 = getelementptr inbounds i8, ptr %0, i64 32
  %6 = ptrtoint ptr %5 to i64
  %7 = ptrtoint ptr %0 to i64
  store i64 %7, ptr %2, align 8
  %8 = getelementptr inbounds i8, ptr %2, i64 8
  store i64 %4, ptr %8, align 8
  %9 = getelementptr inbounds i8, ptr %2, i64 16
  store i64 %6, ptr %9, align 8
  %10 = call i64 @policy_gpu_evict_prepare(ptr noundef nonnull %2) #14
  %11 = trunc i64 %10 to i32
  ret i32 %11
}

declare i64 @policy_gpu_evict_prepare(ptr noundef) local_unnamed_addr #7

define dso_local void @uvm_perf_prefetch_get_hint_va_block(ptr noundef %0, ptr nocapture noundef readnone %1, i32 noundef %2, ptr nocapture noundef readnone %3, i32 noundef %4, ptr noundef %5) local_unnamed_addr #6 {
  %7 = ptrtoint ptr %0 to i64
  %8 = load i64, ptr @accel_arena, align 8
  %9 = inttoptr i64 %8 to ptr
  %10 = getelementptr inbounds i8, ptr %9, i64 664
  store i64 %7, ptr %10, align 8
  %11 = zext i32 %2 to i64
  %12 = getelementptr inbounds i8, ptr %9, i64 648
  store i64 %11, ptr %12, align 8
  %13 = zext i32 %4 to i64
  %14 = getelementptr inbounds i8, ptr %9, i64 624
  store i64 %13, ptr %14, align 8
  %15 = ptrtoint ptr %5 to i64
  %16 = getelementptr inbounds i8, ptr %9, i64 616
  store i64 %15, ptr %16, align 8
  %17 = getelementptr inbounds i8, ptr %9, i64 552
  %18 = tail call i64 @policy_uvm_perf_prefetch_get_hint_va_block(ptr noundef nonnull %17) #14
  %19 = getelementptr inbounds i8, ptr %0, i64 32
  tail call void @llvm.memmove.p0.p0.i64(ptr noundef nonnull align 8 dereferenceable(64) %5, ptr noundef nonnull align 8 dereferenceable(64) %19, i64 64, i1 false)
  %20 = getelementptr inbounds i8, ptr %5, i64 64
  store i16 0, ptr %20, align 8
  %21 = getelementptr inbounds i8, ptr %5, i64 66
  store i16 512, ptr %21, align 2
  %22 = getelementptr inbounds i8, ptr %5, i64 68
  store i8 10, ptr %22, align 4
  ret void
}

declare i64 @policy_uvm_perf_prefetch_get_hint_va_block(ptr noundef) local_unnamed_addr #7

define dso_local void @model_start(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3) local_unnamed_addr #2 {
  %5 = load i64, ptr @accel_arena, align 8
  %6 = inttoptr i64 %5 to ptr
  %7 = add i64 %5, 1024
  %8 = inttoptr i64 %7 to ptr
  %9 = getelementptr inbounds i8, ptr %6, i64 296
  store i64 %2, ptr %9, align 8
  %10 = getelementptr inbounds i8, ptr %6, i64 320
  store i64 88172645463325252, ptr %10, align 8
  %11 = getelementptr inbounds i8, ptr %6, i64 64
  store i64 %3, ptr %11, align 8
  %12 = getelementptr inbounds %struct.uvm_gpu_root_chunk_struct, ptr %8, i64 %0
  %13 = getelementptr inbounds i8, ptr %6, i64 56
  store ptr %12, ptr %13, align 8
  %14 = getelementptr inbounds %struct.uvm_va_block_struct, ptr %12, i64 %1
  %15 = getelementptr inbounds i8, ptr %6, i64 304
  store ptr %14, ptr %15, align 8
  %16 = getelementptr inbounds i8, ptr %6, i64 312
  store ptr %14, ptr %16, align 8
  %17 = getelementptr inbounds i8, ptr %6, i64 72
  %18 = getelementptr inbounds i8, ptr %6, i64 80
  store ptr %17, ptr %18, align 8
  store ptr %17, ptr %17, align 8
  %19 = getelementptr inbounds i8, ptr %6, i64 88
  %20 = getelementptr inbounds i8, ptr %6, i64 96
  store ptr %19, ptr %20, align 8
  store ptr %19, ptr %19, align 8
  %21 = getelementptr inbounds i8, ptr %6, i64 104
  %22 = getelementptr inbounds i8, ptr %6, i64 112
  store ptr %21, ptr %22, align 8
  store ptr %21, ptr %21, align 8
  %23 = icmp eq i64 %0, 0
  br i1 %23, label %26, label %24

24:                                               ; preds = %4
  %25 = getelementptr inbounds i8, ptr %6, i64 80
  br label %28

26:                                               ; preds = %28, %4
  %27 = icmp eq i64 %1, 0
  br i1 %27, label %37, label %39

28:                                               ; preds = %24, %28
  %29 = phi i64 [ 0, %24 ], [ %35, %28 ]
  %30 = shl i64 %29, 21
  %31 = getelementptr inbounds %struct.uvm_gpu_root_chunk_struct, ptr %8, i64 %29
  store i64 %30, ptr %31, align 8
  %32 = getelementptr inbounds i8, ptr %31, i64 16
  %33 = load ptr, ptr %25, align 8
  store ptr %32, ptr %18, align 8
  store ptr %17, ptr %32, align 8
  %34 = getelementptr inbounds i8, ptr %31, i64 24
  store ptr %33, ptr %34, align 8
  store ptr %32, ptr %33, align 8
  %35 = add nuw i64 %29, 1
  %36 = icmp eq i64 %35, %0
  br i1 %36, label %26, label %28

37:                                               ; preds = %39, %26
  %38 = icmp eq i64 %2, 0
  br i1 %38, label %50, label %51

39:                                               ; preds = %26, %39
  %40 = phi i64 [ %44, %39 ], [ 0, %26 ]
  %41 = shl i64 %40, 21
  %42 = load ptr, ptr %13, align 8
  %43 = getelementptr inbounds %struct.uvm_va_block_struct, ptr %42, i64 %40, i32 1
  store i64 %41, ptr %43, align 8
  %44 = add nuw i64 %40, 1
  %45 = shl i64 %44, 21
  %46 = add i64 %45, -1
  %47 = load ptr, ptr %13, align 8
  %48 = getelementptr inbounds %struct.uvm_va_block_struct, ptr %47, i64 %40, i32 2
  store i64 %46, ptr %48, align 8
  %49 = icmp eq i64 %44, %1
  br i1 %49, label %37, label %39

50:                                               ; preds = %51, %37
  ret void

51:                                               ; preds = %37, %51
  %52 = phi i64 [ %61, %51 ], [ 0, %37 ]
  %53 = load ptr, ptr %15, align 8
  %54 = getelementptr inbounds %struct.tenant, ptr %53, i64 %52
  %55 = trunc i64 %52 to i32
  %56 = add nsw i32 %55, 1000
  %57 = getelementptr inbounds i8, ptr %54, i64 4
  store i32 %56, ptr %57, align 4
  store i32 %56, ptr %54, align 8
  %58 = getelementptr inbounds i8, ptr %54, i64 24
  store ptr %54, ptr %58, align 8
  %59 = getelementptr inbounds i8, ptr %54, i64 32
  store ptr %58, ptr %59, align 8
  %60 = getelementptr inbounds i8, ptr %54, i64 40
  store ptr %59, ptr %60, align 8
  %61 = add nuw i64 %52, 1
  %62 = icmp eq i64 %61, %2
  br i1 %62, label %50, label %51
}

define dso_local void @model_run(ptr nocapture noundef readonly %0, ptr nocapture noundef readonly %1, i64 noundef %2, ptr nocapture noundef writeonly %3) local_unnamed_addr #6 {
  %5 = alloca [3 x i64], align 8
  %6 = alloca [5 x i64], align 8
  %7 = alloca [4 x i64], align 8
  %8 = alloca [3 x i64], align 8
  %9 = alloca [3 x i64], align 8
  %10 = alloca [3 x i64], align 8
  %11 = alloca [28 x i8], align 4
  %12 = alloca [28 x i8], align 4
  %13 = alloca [28 x i8], align 4
  %14 = load i64, ptr @accel_arena, align 8
  %15 = inttoptr i64 %14 to ptr
  %16 = load i64, ptr %15, align 8
  %17 = add i64 %16, %2
  store i64 %17, ptr %15, align 8
  %18 = icmp eq i64 %2, 0
  br i1 %18, label %136, label %19

19:                                               ; preds = %4
  %20 = getelementptr inbounds i8, ptr %15, i64 304
  %21 = getelementptr inbounds i8, ptr %15, i64 312
  %22 = getelementptr inbounds i8, ptr %15, i64 56
  %23 = getelementptr inbounds i8, ptr %15, i64 48
  %24 = getelementptr inbounds i8, ptr %15, i64 64
  %25 = getelementptr inbounds i8, ptr %15, i64 72
  %26 = getelementptr inbounds i8, ptr %15, i64 120
  %27 = ptrtoint ptr %25 to i64
  %28 = getelementptr inbounds i8, ptr %15, i64 128
  %29 = getelementptr inbounds i8, ptr %15, i64 136
  %30 = getelementptr inbounds i8, ptr %15, i64 144
  %31 = getelementptr inbounds i8, ptr %15, i64 152
  %32 = getelementptr inbounds i8, ptr %15, i64 160
  %33 = getelementptr inbounds i8, ptr %15, i64 164
  %34 = getelementptr inbounds i8, ptr %5, i64 8
  %35 = getelementptr inbounds i8, ptr %5, i64 16
  %36 = ptrtoint ptr %26 to i64
  %37 = getelementptr inbounds i8, ptr %15, i64 168
  %38 = getelementptr inbounds i8, ptr %15, i64 176
  %39 = getelementptr inbounds i8, ptr %15, i64 169
  %40 = getelementptr inbounds i8, ptr %15, i64 176
  %41 = getelementptr inbounds i8, ptr %15, i64 184
  %42 = getelementptr inbounds i8, ptr %15, i64 184
  %43 = getelementptr inbounds i8, ptr %15, i64 88
  %44 = getelementptr inbounds i8, ptr %15, i64 96
  %45 = getelementptr inbounds i8, ptr %15, i64 72
  %46 = getelementptr inbounds i8, ptr %15, i64 8
  %47 = getelementptr inbounds i8, ptr %15, i64 120
  %48 = ptrtoint ptr %45 to i64
  %49 = getelementptr inbounds i8, ptr %15, i64 128
  %50 = getelementptr inbounds i8, ptr %15, i64 136
  %51 = getelementptr inbounds i8, ptr %15, i64 144
  %52 = getelementptr inbounds i8, ptr %15, i64 152
  %53 = getelementptr inbounds i8, ptr %15, i64 160
  %54 = getelementptr inbounds i8, ptr %15, i64 164
  %55 = getelementptr inbounds i8, ptr %10, i64 8
  %56 = getelementptr inbounds i8, ptr %10, i64 16
  %57 = ptrtoint ptr %47 to i64
  %58 = getelementptr inbounds i8, ptr %15, i64 168
  %59 = getelementptr inbounds i8, ptr %15, i64 176
  %60 = getelementptr inbounds i8, ptr %15, i64 169
  %61 = getelementptr inbounds i8, ptr %15, i64 176
  %62 = getelementptr inbounds i8, ptr %15, i64 184
  %63 = getelementptr inbounds i8, ptr %15, i64 184
  %64 = getelementptr inbounds i8, ptr %15, i64 88
  %65 = getelementptr inbounds i8, ptr %15, i64 96
  %66 = getelementptr inbounds i8, ptr %15, i64 16
  %67 = getelementptr inbounds i8, ptr %15, i64 104
  %68 = getelementptr inbounds i8, ptr %15, i64 88
  %69 = getelementptr inbounds i8, ptr %15, i64 88
  %70 = ptrtoint ptr %69 to i64
  %71 = getelementptr inbounds i8, ptr %15, i64 104
  %72 = ptrtoint ptr %71 to i64
  %73 = ptrtoint ptr %45 to i64
  %74 = getelementptr inbounds i8, ptr %9, i64 8
  %75 = getelementptr inbounds i8, ptr %9, i64 16
  %76 = getelementptr inbounds i8, ptr %15, i64 24
  %77 = getelementptr inbounds i8, ptr %15, i64 40
  %78 = getelementptr inbounds i8, ptr %15, i64 88
  %79 = getelementptr inbounds i8, ptr %15, i64 96
  %80 = getelementptr inbounds i8, ptr %15, i64 120
  %81 = ptrtoint ptr %45 to i64
  %82 = getelementptr inbounds i8, ptr %15, i64 128
  %83 = getelementptr inbounds i8, ptr %15, i64 136
  %84 = getelementptr inbounds i8, ptr %15, i64 144
  %85 = getelementptr inbounds i8, ptr %15, i64 152
  %86 = getelementptr inbounds i8, ptr %15, i64 160
  %87 = getelementptr inbounds i8, ptr %15, i64 164
  %88 = getelementptr inbounds i8, ptr %8, i64 8
  %89 = getelementptr inbounds i8, ptr %8, i64 16
  %90 = ptrtoint ptr %80 to i64
  %91 = getelementptr inbounds i8, ptr %15, i64 168
  %92 = getelementptr inbounds i8, ptr %15, i64 176
  %93 = getelementptr inbounds i8, ptr %15, i64 169
  %94 = getelementptr inbounds i8, ptr %15, i64 176
  %95 = getelementptr inbounds i8, ptr %15, i64 184
  %96 = getelementptr inbounds i8, ptr %15, i64 184
  %97 = getelementptr inbounds i8, ptr %15, i64 32
  %98 = getelementptr inbounds i8, ptr %15, i64 192
  %99 = getelementptr inbounds i8, ptr %15, i64 664
  %100 = getelementptr inbounds i8, ptr %15, i64 648
  %101 = getelementptr inbounds i8, ptr %15, i64 624
  %102 = ptrtoint ptr %98 to i64
  %103 = getelementptr inbounds i8, ptr %15, i64 616
  %104 = getelementptr inbounds i8, ptr %15, i64 552
  %105 = getelementptr inbounds i8, ptr %15, i64 256
  %106 = getelementptr inbounds i8, ptr %15, i64 258
  %107 = getelementptr inbounds i8, ptr %15, i64 260
  %108 = getelementptr inbounds i8, ptr %15, i64 264
  %109 = getelementptr inbounds i8, ptr %15, i64 266
  %110 = getelementptr inbounds i8, ptr %15, i64 272
  %111 = getelementptr inbounds i8, ptr %7, i64 8
  %112 = getelementptr inbounds i8, ptr %7, i64 16
  %113 = ptrtoint ptr %108 to i64
  %114 = getelementptr inbounds i8, ptr %7, i64 24
  %115 = ptrtoint ptr %110 to i64
  %116 = getelementptr inbounds i8, ptr %15, i64 280
  %117 = getelementptr inbounds i8, ptr %15, i64 288
  %118 = getelementptr inbounds i8, ptr %15, i64 273
  %119 = getelementptr inbounds i8, ptr %15, i64 288
  %120 = getelementptr inbounds i8, ptr %15, i64 288
  %121 = getelementptr inbounds i8, ptr %15, i64 268
  %122 = getelementptr inbounds i8, ptr %15, i64 270
  %123 = getelementptr inbounds i8, ptr %6, i64 8
  %124 = getelementptr inbounds i8, ptr %6, i64 16
  %125 = ptrtoint ptr %121 to i64
  %126 = getelementptr inbounds i8, ptr %6, i64 24
  %127 = getelementptr inbounds i8, ptr %6, i64 32
  %128 = getelementptr inbounds i8, ptr %15, i64 280
  %129 = getelementptr inbounds i8, ptr %15, i64 288
  %130 = getelementptr inbounds i8, ptr %15, i64 273
  %131 = getelementptr inbounds i8, ptr %15, i64 288
  %132 = getelementptr inbounds i8, ptr %15, i64 288
  %133 = getelementptr inbounds i8, ptr %12, i64 4
  %134 = getelementptr inbounds i8, ptr %11, i64 4
  %135 = getelementptr inbounds i8, ptr %13, i64 4
  br label %137

136:                                              ; preds = %699, %4
  ret void

137:                                              ; preds = %19, %699
  %138 = phi i64 [ 0, %19 ], [ %710, %699 ]
  %139 = load ptr, ptr %20, align 8
  %140 = getelementptr inbounds i16, ptr %1, i64 %138
  %141 = load i16, ptr %140, align 2
  %142 = zext i16 %141 to i64
  %143 = getelementptr inbounds %struct.tenant, ptr %139, i64 %142
  store ptr %143, ptr %21, align 8
  %144 = getelementptr inbounds %struct.accel_lab_decision, ptr %3, i64 %138
  %145 = getelementptr inbounds i64, ptr %0, i64 %138
  %146 = load i64, ptr %145, align 8
  %147 = load i16, ptr %140, align 2
  %148 = getelementptr inbounds i8, ptr %143, i64 40
  %149 = zext i16 %147 to i64
  %150 = shl nuw nsw i64 %149, 16
  %151 = load ptr, ptr %22, align 8
  %152 = lshr i64 %146, 9
  %153 = getelementptr inbounds %struct.uvm_va_block_struct, ptr %151, i64 %152
  %154 = trunc i64 %146 to i32
  %155 = and i32 %154, 511
  %156 = load i64, ptr %23, align 8
  %157 = getelementptr inbounds i8, ptr %153, i64 32
  %158 = lshr i32 %155, 6
  %159 = zext nneg i32 %158 to i64
  %160 = getelementptr inbounds [8 x i64], ptr %157, i64 0, i64 %159
  %161 = load i64, ptr %160, align 8
  %162 = and i64 %146, 63
  %163 = shl nuw i64 1, %162
  %164 = and i64 %161, %163
  %165 = icmp eq i64 %164, 0
  br i1 %165, label %166, label %621

166:                                              ; preds = %137
  %167 = load i64, ptr %46, align 8
  %168 = add i64 %167, 1
  store i64 %168, ptr %46, align 8
  %169 = or disjoint i64 %150, 1
  %170 = load ptr, ptr %153, align 8
  %171 = icmp eq ptr %170, null
  br i1 %171, label %172, label %173

172:                                              ; preds = %166
  store ptr %148, ptr %153, align 8
  br label %173

173:                                              ; preds = %172, %166
  %174 = getelementptr inbounds i8, ptr %153, i64 24
  %175 = load ptr, ptr %174, align 8
  %176 = icmp eq ptr %175, null
  br i1 %176, label %250, label %177

177:                                              ; preds = %173
  call void @llvm.lifetime.start.p0(i64 28, ptr nonnull %11)
  %178 = ptrtoint ptr %175 to i64
  %179 = getelementptr inbounds i8, ptr %175, i64 40
  %180 = load i64, ptr %179, align 8
  %181 = getelementptr inbounds i8, ptr %175, i64 48
  %182 = load i32, ptr %181, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(24) %134, i8 0, i64 24, i1 false)
  store ptr %45, ptr %47, align 8
  store ptr %175, ptr %49, align 8
  store i64 %48, ptr %50, align 8
  store i64 %178, ptr %51, align 8
  store i64 %180, ptr %52, align 8
  store i32 %182, ptr %53, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(28) %54, ptr noundef nonnull align 4 dereferenceable(28) %11, i64 28, i1 false)
  call void @llvm.lifetime.end.p0(i64 28, ptr nonnull %11)
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %10)
  store i64 %48, ptr %10, align 8
  store i64 %178, ptr %55, align 8
  store i64 %57, ptr %56, align 8
  %183 = call i64 @policy_gpu_block_access(ptr noundef nonnull %10) #14
  %184 = trunc i64 %183 to i32
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %10)
  %185 = icmp ugt i32 %184, 1
  br i1 %185, label %186, label %189

186:                                              ; preds = %177
  %187 = load i64, ptr %23, align 8
  %188 = add i64 %187, 1
  store i64 %188, ptr %23, align 8
  br label %357

189:                                              ; preds = %177
  %190 = load i64, ptr %59, align 8
  %191 = icmp eq i64 %190, 1
  %192 = select i1 %191, i64 88, i64 104
  %193 = getelementptr inbounds i8, ptr %15, i64 %192
  %194 = load i8, ptr %58, align 8
  %195 = icmp eq i8 %194, 0
  br i1 %195, label %236, label %196

196:                                              ; preds = %189
  %197 = load i8, ptr %60, align 1
  %198 = icmp eq i8 %197, 0
  br i1 %198, label %199, label %207

199:                                              ; preds = %196
  %200 = load i64, ptr %61, align 8
  %201 = add i64 %200, -1
  %202 = icmp ult i64 %201, 2
  br i1 %202, label %203, label %207

203:                                              ; preds = %199
  %204 = load i64, ptr %62, align 8
  %205 = add i64 %204, -1
  %206 = icmp ult i64 %205, 2
  br i1 %206, label %210, label %207

207:                                              ; preds = %203, %196, %199
  %208 = load i64, ptr %23, align 8
  %209 = add i64 %208, 1
  store i64 %209, ptr %23, align 8
  br label %236

210:                                              ; preds = %203
  %211 = load i64, ptr %63, align 8
  %212 = icmp eq i64 %211, 1
  %213 = getelementptr inbounds i8, ptr %175, i64 16
  %214 = getelementptr inbounds i8, ptr %175, i64 24
  %215 = load ptr, ptr %214, align 8
  %216 = load ptr, ptr %213, align 8
  %217 = getelementptr inbounds i8, ptr %216, i64 8
  store ptr %215, ptr %217, align 8
  %218 = load ptr, ptr %213, align 8
  %219 = load ptr, ptr %214, align 8
  store ptr %218, ptr %219, align 8
  br i1 %212, label %220, label %223

220:                                              ; preds = %210
  %221 = load ptr, ptr %193, align 8
  %222 = getelementptr inbounds i8, ptr %221, i64 8
  br label %226

223:                                              ; preds = %210
  %224 = getelementptr inbounds i8, ptr %193, i64 8
  %225 = load ptr, ptr %224, align 8
  br label %226

226:                                              ; preds = %223, %220
  %227 = phi ptr [ %224, %223 ], [ %222, %220 ]
  %228 = phi ptr [ %193, %223 ], [ %221, %220 ]
  %229 = phi ptr [ %225, %223 ], [ %193, %220 ]
  store ptr %213, ptr %227, align 8
  store ptr %228, ptr %213, align 8
  store ptr %229, ptr %214, align 8
  store ptr %213, ptr %229, align 8
  %230 = select i1 %191, i32 1, i32 2
  %231 = load i32, ptr %181, align 8
  %232 = icmp ne i32 %231, %230
  %233 = zext i1 %232 to i64
  %234 = load i64, ptr %179, align 8
  %235 = add i64 %234, %233
  store i64 %235, ptr %179, align 8
  store i32 %230, ptr %181, align 8
  br label %357

236:                                              ; preds = %207, %189
  %237 = load i8, ptr %58, align 8
  %238 = icmp eq i8 %237, 0
  %239 = icmp eq i32 %184, 0
  %240 = and i1 %239, %238
  br i1 %240, label %241, label %357

241:                                              ; preds = %236
  %242 = getelementptr inbounds i8, ptr %175, i64 16
  %243 = getelementptr inbounds i8, ptr %175, i64 24
  %244 = load ptr, ptr %243, align 8
  %245 = load ptr, ptr %242, align 8
  %246 = getelementptr inbounds i8, ptr %245, i64 8
  store ptr %244, ptr %246, align 8
  %247 = load ptr, ptr %242, align 8
  %248 = load ptr, ptr %243, align 8
  store ptr %247, ptr %248, align 8
  %249 = load ptr, ptr %65, align 8
  store ptr %242, ptr %65, align 8
  store ptr %64, ptr %242, align 8
  store ptr %249, ptr %243, align 8
  store ptr %242, ptr %249, align 8
  br label %357

250:                                              ; preds = %173
  %251 = load i64, ptr %66, align 8
  %252 = add i64 %251, 1
  store i64 %252, ptr %66, align 8
  %253 = or disjoint i64 %150, 2
  %254 = load ptr, ptr %45, align 8
  %255 = icmp eq ptr %254, %45
  br i1 %255, label %256, label %292

256:                                              ; preds = %250
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %9)
  store i64 %73, ptr %9, align 8
  store i64 %70, ptr %74, align 8
  store i64 %72, ptr %75, align 8
  %257 = call i64 @policy_gpu_evict_prepare(ptr noundef nonnull %9) #14
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %9)
  %258 = load ptr, ptr %67, align 8
  %259 = icmp eq ptr %258, %67
  %260 = select i1 %259, ptr %68, ptr %67
  %261 = load ptr, ptr %260, align 8
  %262 = getelementptr inbounds i8, ptr %261, i64 16
  %263 = load ptr, ptr %262, align 8
  %264 = load ptr, ptr %22, align 8
  %265 = ptrtoint ptr %263 to i64
  %266 = ptrtoint ptr %264 to i64
  %267 = sub i64 %265, %266
  %268 = sdiv exact i64 %267, 96
  %269 = getelementptr inbounds i8, ptr %263, i64 32
  br label %270

270:                                              ; preds = %256, %270
  %271 = phi i64 [ 0, %256 ], [ %278, %270 ]
  %272 = phi i32 [ 0, %256 ], [ %277, %270 ]
  %273 = getelementptr inbounds [8 x i64], ptr %269, i64 0, i64 %271
  %274 = load i64, ptr %273, align 8
  %275 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %274)
  %276 = trunc nuw nsw i64 %275 to i32
  %277 = add i32 %272, %276
  %278 = add nuw nsw i64 %271, 1
  %279 = icmp eq i64 %278, 8
  br i1 %279, label %280, label %270

280:                                              ; preds = %270
  %281 = and i64 %268, 4294967295
  %282 = zext i32 %277 to i64
  %283 = shl i64 %282, 48
  %284 = or disjoint i64 %283, %281
  %285 = load i64, ptr %76, align 8
  %286 = add i64 %285, 1
  store i64 %286, ptr %76, align 8
  %287 = and i32 %277, 65535
  %288 = zext nneg i32 %287 to i64
  %289 = load i64, ptr %77, align 8
  %290 = add i64 %289, %288
  store i64 %290, ptr %77, align 8
  %291 = getelementptr inbounds i8, ptr %263, i64 24
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(72) %291, i8 0, i64 72, i1 false)
  br label %292

292:                                              ; preds = %250, %280
  %293 = phi i64 [ %284, %280 ], [ 4294967295, %250 ]
  %294 = phi ptr [ %261, %280 ], [ %254, %250 ]
  %295 = getelementptr inbounds i8, ptr %294, i64 -16
  %296 = getelementptr inbounds i8, ptr %294, i64 16
  store ptr %153, ptr %296, align 8
  store ptr %295, ptr %174, align 8
  %297 = getelementptr inbounds i8, ptr %294, i64 8
  %298 = load ptr, ptr %297, align 8
  %299 = load ptr, ptr %294, align 8
  %300 = getelementptr inbounds i8, ptr %299, i64 8
  store ptr %298, ptr %300, align 8
  %301 = load ptr, ptr %294, align 8
  %302 = load ptr, ptr %297, align 8
  store ptr %301, ptr %302, align 8
  %303 = load ptr, ptr %79, align 8
  store ptr %294, ptr %79, align 8
  store ptr %78, ptr %294, align 8
  store ptr %303, ptr %297, align 8
  store ptr %294, ptr %303, align 8
  %304 = getelementptr inbounds i8, ptr %294, i64 32
  %305 = load i32, ptr %304, align 8
  %306 = icmp ne i32 %305, 1
  %307 = zext i1 %306 to i64
  %308 = getelementptr inbounds i8, ptr %294, i64 24
  %309 = load i64, ptr %308, align 8
  %310 = add i64 %309, %307
  store i64 %310, ptr %308, align 8
  store i32 1, ptr %304, align 8
  call void @llvm.lifetime.start.p0(i64 28, ptr nonnull %13)
  %311 = ptrtoint ptr %295 to i64
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(24) %135, i8 0, i64 24, i1 false)
  store ptr %45, ptr %80, align 8
  store ptr %295, ptr %82, align 8
  store i64 %81, ptr %83, align 8
  store i64 %311, ptr %84, align 8
  store i64 %310, ptr %85, align 8
  store i32 1, ptr %86, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(28) %87, ptr noundef nonnull align 4 dereferenceable(28) %13, i64 28, i1 false)
  call void @llvm.lifetime.end.p0(i64 28, ptr nonnull %13)
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %8)
  store i64 %81, ptr %8, align 8
  store i64 %311, ptr %88, align 8
  store i64 %90, ptr %89, align 8
  %312 = call i64 @policy_gpu_block_activate(ptr noundef nonnull %8) #14
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %8)
  %313 = load i64, ptr %92, align 8
  %314 = icmp eq i64 %313, 1
  %315 = select i1 %314, i64 88, i64 104
  %316 = getelementptr inbounds i8, ptr %15, i64 %315
  %317 = load i8, ptr %91, align 8
  %318 = icmp eq i8 %317, 0
  br i1 %318, label %357, label %319

319:                                              ; preds = %292
  %320 = load i8, ptr %93, align 1
  %321 = icmp eq i8 %320, 0
  br i1 %321, label %322, label %330

322:                                              ; preds = %319
  %323 = load i64, ptr %94, align 8
  %324 = add i64 %323, -1
  %325 = icmp ult i64 %324, 2
  br i1 %325, label %326, label %330

326:                                              ; preds = %322
  %327 = load i64, ptr %95, align 8
  %328 = add i64 %327, -1
  %329 = icmp ult i64 %328, 2
  br i1 %329, label %333, label %330

330:                                              ; preds = %326, %319, %322
  %331 = load i64, ptr %23, align 8
  %332 = add i64 %331, 1
  store i64 %332, ptr %23, align 8
  br label %357

333:                                              ; preds = %326
  %334 = load i64, ptr %96, align 8
  %335 = icmp eq i64 %334, 1
  %336 = load ptr, ptr %297, align 8
  %337 = load ptr, ptr %294, align 8
  %338 = getelementptr inbounds i8, ptr %337, i64 8
  store ptr %336, ptr %338, align 8
  %339 = load ptr, ptr %294, align 8
  %340 = load ptr, ptr %297, align 8
  store ptr %339, ptr %340, align 8
  br i1 %335, label %341, label %344

341:                                              ; preds = %333
  %342 = load ptr, ptr %316, align 8
  %343 = getelementptr inbounds i8, ptr %342, i64 8
  br label %347

344:                                              ; preds = %333
  %345 = getelementptr inbounds i8, ptr %316, i64 8
  %346 = load ptr, ptr %345, align 8
  br label %347

347:                                              ; preds = %344, %341
  %348 = phi ptr [ %345, %344 ], [ %343, %341 ]
  %349 = phi ptr [ %316, %344 ], [ %342, %341 ]
  %350 = phi ptr [ %346, %344 ], [ %316, %341 ]
  store ptr %294, ptr %348, align 8
  store ptr %349, ptr %294, align 8
  store ptr %350, ptr %297, align 8
  store ptr %294, ptr %350, align 8
  %351 = select i1 %314, i32 1, i32 2
  %352 = load i32, ptr %304, align 8
  %353 = icmp ne i32 %352, %351
  %354 = zext i1 %353 to i64
  %355 = load i64, ptr %308, align 8
  %356 = add i64 %355, %354
  store i64 %356, ptr %308, align 8
  store i32 %351, ptr %304, align 8
  br label %357

357:                                              ; preds = %347, %330, %292, %241, %236, %186, %226
  %358 = phi i64 [ %169, %226 ], [ %169, %186 ], [ %169, %236 ], [ %169, %241 ], [ %253, %292 ], [ %253, %330 ], [ %253, %347 ]
  %359 = phi i64 [ 4294967295, %226 ], [ 4294967295, %186 ], [ 4294967295, %236 ], [ 4294967295, %241 ], [ %293, %292 ], [ %293, %330 ], [ %293, %347 ]
  %360 = and i64 %146, 63
  %361 = xor i64 %360, 63
  %362 = lshr i64 -1, %361
  br label %363

363:                                              ; preds = %357, %363
  %364 = phi i32 [ 0, %357 ], [ %381, %363 ]
  %365 = phi i32 [ %155, %357 ], [ %383, %363 ]
  %366 = or i32 %365, 63
  %367 = icmp ugt i32 %366, %155
  %368 = and i32 %365, 63
  %369 = zext nneg i32 %368 to i64
  %370 = shl nsw i64 -1, %369
  %371 = select i1 %367, i64 %362, i64 -1
  %372 = and i64 %370, %371
  %373 = lshr i32 %365, 6
  %374 = zext nneg i32 %373 to i64
  %375 = getelementptr inbounds [8 x i64], ptr %157, i64 0, i64 %374
  %376 = load i64, ptr %375, align 8
  %377 = xor i64 %376, -1
  %378 = and i64 %372, %377
  %379 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %378)
  %380 = trunc nuw nsw i64 %379 to i32
  %381 = add i32 %364, %380
  %382 = or i64 %376, %372
  store i64 %382, ptr %375, align 8
  %383 = add nuw nsw i32 %366, 1
  %384 = icmp ult i32 %366, %155
  br i1 %384, label %363, label %385

385:                                              ; preds = %363
  %386 = zext i32 %381 to i64
  %387 = and i64 %359, -281470681743361
  %388 = zext i32 %381 to i64
  %389 = load i64, ptr %97, align 8
  %390 = add i64 %389, %388
  store i64 %390, ptr %97, align 8
  %391 = ptrtoint ptr %153 to i64
  store i64 %391, ptr %99, align 8
  store i64 1, ptr %100, align 8
  %392 = and i64 %146, 511
  store i64 %392, ptr %101, align 8
  store i64 %102, ptr %103, align 8
  %393 = call i64 @policy_uvm_perf_prefetch_get_hint_va_block(ptr noundef nonnull %104) #14
  call void @llvm.memmove.p0.p0.i64(ptr noundef nonnull align 8 dereferenceable(64) %98, ptr noundef nonnull align 8 dereferenceable(64) %157, i64 64, i1 false)
  store i16 0, ptr %105, align 8
  store i16 512, ptr %106, align 2
  store i8 10, ptr %107, align 4
  store i16 0, ptr %108, align 8
  store i16 512, ptr %109, align 2
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(24) %110, i8 0, i64 24, i1 false)
  %394 = and i64 %146, 511
  call void @llvm.lifetime.start.p0(i64 32, ptr nonnull %7)
  store i64 %394, ptr %7, align 8
  store i64 %102, ptr %111, align 8
  store i64 %113, ptr %112, align 8
  store i64 %115, ptr %114, align 8
  %395 = call i64 @policy_gpu_page_prefetch(ptr noundef nonnull %7) #14
  %396 = trunc i64 %395 to i32
  call void @llvm.lifetime.end.p0(i64 32, ptr nonnull %7)
  switch i32 %396, label %515 [
    i32 0, label %518
    i32 2, label %397
    i32 1, label %486
  ]

397:                                              ; preds = %385, %476
  %398 = phi i16 [ %478, %476 ], [ 0, %385 ]
  %399 = phi i16 [ %477, %476 ], [ 0, %385 ]
  %400 = phi i32 [ %479, %476 ], [ %396, %385 ]
  %401 = sub nsw i32 0, %400
  %402 = and i32 %155, %401
  %403 = icmp ult i32 %400, 64
  %404 = lshr i32 %402, 6
  br i1 %403, label %405, label %418

405:                                              ; preds = %397
  %406 = zext nneg i32 %404 to i64
  %407 = getelementptr inbounds [8 x i64], ptr %98, i64 0, i64 %406
  %408 = load i64, ptr %407, align 8
  %409 = and i32 %402, 62
  %410 = zext nneg i32 %409 to i64
  %411 = lshr i64 %408, %410
  %412 = zext nneg i32 %400 to i64
  %413 = shl nsw i64 -1, %412
  %414 = xor i64 %413, -1
  %415 = and i64 %411, %414
  %416 = call range(i64 0, 64) i64 @llvm.ctpop.i64(i64 %415)
  %417 = trunc nuw nsw i64 %416 to i32
  br label %438

418:                                              ; preds = %397
  %419 = add nuw nsw i32 %402, %400
  %420 = lshr i32 %419, 6
  %421 = icmp ult i32 %404, %420
  br i1 %421, label %422, label %438

422:                                              ; preds = %418
  %423 = lshr i32 %402, 6
  %424 = zext nneg i32 %423 to i64
  %425 = add nuw nsw i32 %420, %423
  %426 = sub nsw i32 %425, %404
  %427 = zext i32 %426 to i64
  br label %428

428:                                              ; preds = %422, %428
  %429 = phi i64 [ %424, %422 ], [ %436, %428 ]
  %430 = phi i32 [ 0, %422 ], [ %435, %428 ]
  %431 = getelementptr inbounds [8 x i64], ptr %98, i64 0, i64 %429
  %432 = load i64, ptr %431, align 8
  %433 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %432)
  %434 = trunc nuw nsw i64 %433 to i32
  %435 = add i32 %430, %434
  %436 = add nuw nsw i64 %429, 1
  %437 = icmp eq i64 %436, %427
  br i1 %437, label %438, label %428

438:                                              ; preds = %428, %418, %405
  %439 = phi i32 [ %417, %405 ], [ 0, %418 ], [ %435, %428 ]
  %440 = trunc nuw nsw i32 %402 to i16
  %441 = add nuw nsw i32 %402, %400
  %442 = trunc nuw i32 %441 to i16
  store i16 %440, ptr %121, align 4
  store i16 %442, ptr %122, align 2
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(24) %110, i8 0, i64 24, i1 false)
  call void @llvm.lifetime.start.p0(i64 40, ptr nonnull %6)
  store i64 %102, ptr %6, align 8
  store i64 %113, ptr %123, align 8
  store i64 %125, ptr %124, align 8
  %443 = zext i32 %439 to i64
  store i64 %443, ptr %126, align 8
  store i64 %115, ptr %127, align 8
  %444 = call i64 @policy_gpu_page_prefetch_iter(ptr noundef nonnull %6) #14
  call void @llvm.lifetime.end.p0(i64 40, ptr nonnull %6)
  %445 = and i64 %444, 4294967295
  %446 = icmp eq i64 %445, 1
  br i1 %446, label %447, label %476

447:                                              ; preds = %438
  %448 = load i64, ptr %128, align 8
  %449 = icmp eq i64 %448, 0
  br i1 %449, label %450, label %453

450:                                              ; preds = %447
  %451 = load i64, ptr %129, align 8
  %452 = icmp eq i64 %451, 0
  br label %453

453:                                              ; preds = %450, %447
  %454 = phi i1 [ false, %447 ], [ %452, %450 ]
  %455 = load i8, ptr %110, align 8
  %456 = icmp eq i8 %455, 0
  br i1 %456, label %473, label %457

457:                                              ; preds = %453
  %458 = load i8, ptr %130, align 1
  %459 = icmp ne i8 %458, 0
  %460 = select i1 %459, i1 true, i1 %454
  %461 = xor i1 %459, true
  br i1 %460, label %467, label %462

462:                                              ; preds = %457
  %463 = load i64, ptr %131, align 8
  %464 = icmp ult i64 %448, %463
  %465 = icmp ult i64 %463, 513
  %466 = and i1 %464, %465
  br label %467

467:                                              ; preds = %457, %462
  %468 = phi i1 [ %461, %457 ], [ %466, %462 ]
  br i1 %468, label %469, label %473

469:                                              ; preds = %467
  %470 = load i64, ptr %132, align 8
  %471 = trunc i64 %470 to i16
  %472 = trunc i64 %448 to i16
  br label %476

473:                                              ; preds = %453, %467
  %474 = load i64, ptr %23, align 8
  %475 = add i64 %474, 1
  store i64 %475, ptr %23, align 8
  br label %476

476:                                              ; preds = %473, %469, %438
  %477 = phi i16 [ %399, %438 ], [ %471, %469 ], [ %399, %473 ]
  %478 = phi i16 [ %398, %438 ], [ %472, %469 ], [ %398, %473 ]
  %479 = shl nuw nsw i32 %400, 1
  %480 = icmp ult i32 %400, 257
  br i1 %480, label %397, label %481

481:                                              ; preds = %476
  %482 = zext i16 %477 to i32
  %483 = shl nuw i32 %482, 16
  %484 = zext i16 %478 to i32
  %485 = or disjoint i32 %483, %484
  br label %577

486:                                              ; preds = %385
  %487 = load i64, ptr %116, align 8
  %488 = icmp eq i64 %487, 0
  br i1 %488, label %489, label %492

489:                                              ; preds = %486
  %490 = load i64, ptr %117, align 8
  %491 = icmp eq i64 %490, 0
  br label %492

492:                                              ; preds = %489, %486
  %493 = phi i1 [ false, %486 ], [ %491, %489 ]
  %494 = load i8, ptr %110, align 8
  %495 = icmp eq i8 %494, 0
  br i1 %495, label %515, label %496

496:                                              ; preds = %492
  %497 = load i8, ptr %118, align 1
  %498 = icmp ne i8 %497, 0
  %499 = select i1 %498, i1 true, i1 %493
  %500 = xor i1 %498, true
  br i1 %499, label %506, label %501

501:                                              ; preds = %496
  %502 = load i64, ptr %119, align 8
  %503 = icmp ult i64 %487, %502
  %504 = icmp ult i64 %502, 513
  %505 = and i1 %503, %504
  br label %506

506:                                              ; preds = %496, %501
  %507 = phi i1 [ %500, %496 ], [ %505, %501 ]
  br i1 %507, label %508, label %515

508:                                              ; preds = %506
  %509 = trunc i64 %487 to i32
  %510 = load i64, ptr %120, align 8
  %511 = trunc i64 %510 to i32
  %512 = shl i32 %511, 16
  %513 = and i32 %509, 65535
  %514 = or disjoint i32 %512, %513
  br label %577

515:                                              ; preds = %385, %506, %492
  %516 = load i64, ptr %23, align 8
  %517 = add i64 %516, 1
  store i64 %517, ptr %23, align 8
  br label %518

518:                                              ; preds = %515, %385
  br label %519

519:                                              ; preds = %518, %560
  %520 = phi i16 [ %569, %560 ], [ 0, %518 ]
  %521 = phi i16 [ %568, %560 ], [ 0, %518 ]
  %522 = phi i32 [ %570, %560 ], [ 2, %518 ]
  %523 = sub nsw i32 0, %522
  %524 = and i32 %155, %523
  %525 = icmp ult i32 %522, 64
  %526 = lshr i32 %524, 6
  br i1 %525, label %527, label %540

527:                                              ; preds = %519
  %528 = zext nneg i32 %526 to i64
  %529 = getelementptr inbounds [8 x i64], ptr %98, i64 0, i64 %528
  %530 = load i64, ptr %529, align 8
  %531 = and i32 %524, 62
  %532 = zext nneg i32 %531 to i64
  %533 = lshr i64 %530, %532
  %534 = zext nneg i32 %522 to i64
  %535 = shl nsw i64 -1, %534
  %536 = xor i64 %535, -1
  %537 = and i64 %533, %536
  %538 = call range(i64 0, 64) i64 @llvm.ctpop.i64(i64 %537)
  %539 = trunc nuw nsw i64 %538 to i32
  br label %560

540:                                              ; preds = %519
  %541 = add nuw nsw i32 %524, %522
  %542 = lshr i32 %541, 6
  %543 = icmp ult i32 %526, %542
  br i1 %543, label %544, label %560

544:                                              ; preds = %540
  %545 = lshr i32 %524, 6
  %546 = zext nneg i32 %545 to i64
  %547 = add nuw nsw i32 %542, %545
  %548 = sub nsw i32 %547, %526
  %549 = zext i32 %548 to i64
  br label %550

550:                                              ; preds = %544, %550
  %551 = phi i64 [ %546, %544 ], [ %558, %550 ]
  %552 = phi i32 [ 0, %544 ], [ %557, %550 ]
  %553 = getelementptr inbounds [8 x i64], ptr %98, i64 0, i64 %551
  %554 = load i64, ptr %553, align 8
  %555 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %554)
  %556 = trunc nuw nsw i64 %555 to i32
  %557 = add i32 %552, %556
  %558 = add nuw nsw i64 %551, 1
  %559 = icmp eq i64 %558, %549
  br i1 %559, label %560, label %550

560:                                              ; preds = %550, %540, %527
  %561 = phi i32 [ %539, %527 ], [ 0, %540 ], [ %557, %550 ]
  %562 = trunc nuw nsw i32 %524 to i16
  %563 = add nuw nsw i32 %524, %522
  %564 = trunc nuw i32 %563 to i16
  %565 = mul i32 %561, 100
  %566 = mul nuw nsw i32 %522, 51
  %567 = icmp ugt i32 %565, %566
  %568 = select i1 %567, i16 %564, i16 %521
  %569 = select i1 %567, i16 %562, i16 %520
  %570 = shl nuw nsw i32 %522, 1
  %571 = icmp ult i32 %522, 257
  br i1 %571, label %519, label %572

572:                                              ; preds = %560
  %573 = zext i16 %568 to i32
  %574 = shl nuw i32 %573, 16
  %575 = zext nneg i16 %569 to i32
  %576 = or disjoint i32 %574, %575
  br label %577

577:                                              ; preds = %481, %508, %572
  %578 = phi i32 [ %576, %572 ], [ %514, %508 ], [ %485, %481 ]
  %579 = lshr i32 %578, 16
  %580 = and i32 %578, 65535
  %581 = icmp ult i32 %580, %579
  br i1 %581, label %582, label %610

582:                                              ; preds = %577
  %583 = add nuw nsw i32 %579, 63
  %584 = and i32 %583, 63
  %585 = xor i32 %584, 63
  br label %586

586:                                              ; preds = %582, %586
  %587 = phi i32 [ 0, %582 ], [ %606, %586 ]
  %588 = phi i32 [ %580, %582 ], [ %608, %586 ]
  %589 = or i32 %588, 63
  %590 = icmp ult i32 %589, %579
  %591 = and i32 %588, 63
  %592 = zext nneg i32 %591 to i64
  %593 = shl nsw i64 -1, %592
  %594 = select i1 %590, i32 0, i32 %585
  %595 = zext nneg i32 %594 to i64
  %596 = lshr i64 -1, %595
  %597 = and i64 %596, %593
  %598 = lshr i32 %588, 6
  %599 = zext nneg i32 %598 to i64
  %600 = getelementptr inbounds [8 x i64], ptr %157, i64 0, i64 %599
  %601 = load i64, ptr %600, align 8
  %602 = xor i64 %601, -1
  %603 = and i64 %597, %602
  %604 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %603)
  %605 = trunc nuw nsw i64 %604 to i32
  %606 = add i32 %587, %605
  %607 = or i64 %601, %597
  store i64 %607, ptr %600, align 8
  %608 = add nuw nsw i32 %589, 1
  %609 = icmp ult i32 %608, %579
  br i1 %609, label %586, label %610

610:                                              ; preds = %586, %577
  %611 = phi i32 [ 0, %577 ], [ %606, %586 ]
  %612 = zext i32 %611 to i64
  %613 = add nuw nsw i64 %612, %386
  %614 = shl i64 %613, 32
  %615 = add i64 %614, %359
  %616 = and i64 %615, 281470681743360
  %617 = or disjoint i64 %616, %387
  %618 = zext i32 %611 to i64
  %619 = load i64, ptr %97, align 8
  %620 = add i64 %619, %618
  store i64 %620, ptr %97, align 8
  br label %699

621:                                              ; preds = %137
  %622 = load i64, ptr %24, align 8
  %623 = icmp eq i64 %622, 0
  br i1 %623, label %699, label %624

624:                                              ; preds = %621
  %625 = getelementptr inbounds i8, ptr %153, i64 24
  %626 = load ptr, ptr %625, align 8
  call void @llvm.lifetime.start.p0(i64 28, ptr nonnull %12)
  %627 = ptrtoint ptr %626 to i64
  %628 = getelementptr inbounds i8, ptr %626, i64 40
  %629 = load i64, ptr %628, align 8
  %630 = getelementptr inbounds i8, ptr %626, i64 48
  %631 = load i32, ptr %630, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(24) %133, i8 0, i64 24, i1 false)
  store ptr %25, ptr %26, align 8
  store ptr %626, ptr %28, align 8
  store i64 %27, ptr %29, align 8
  store i64 %627, ptr %30, align 8
  store i64 %629, ptr %31, align 8
  store i32 %631, ptr %32, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(28) %33, ptr noundef nonnull align 4 dereferenceable(28) %12, i64 28, i1 false)
  call void @llvm.lifetime.end.p0(i64 28, ptr nonnull %12)
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %5)
  store i64 %27, ptr %5, align 8
  store i64 %627, ptr %34, align 8
  store i64 %36, ptr %35, align 8
  %632 = call i64 @policy_gpu_block_access(ptr noundef nonnull %5) #14
  %633 = trunc i64 %632 to i32
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %5)
  %634 = icmp ugt i32 %633, 1
  br i1 %634, label %635, label %638

635:                                              ; preds = %624
  %636 = load i64, ptr %23, align 8
  %637 = add i64 %636, 1
  store i64 %637, ptr %23, align 8
  br label %699

638:                                              ; preds = %624
  %639 = load i64, ptr %38, align 8
  %640 = icmp eq i64 %639, 1
  %641 = select i1 %640, i64 88, i64 104
  %642 = getelementptr inbounds i8, ptr %15, i64 %641
  %643 = load i8, ptr %37, align 8
  %644 = icmp eq i8 %643, 0
  br i1 %644, label %685, label %645

645:                                              ; preds = %638
  %646 = load i8, ptr %39, align 1
  %647 = icmp eq i8 %646, 0
  br i1 %647, label %648, label %656

648:                                              ; preds = %645
  %649 = load i64, ptr %40, align 8
  %650 = add i64 %649, -1
  %651 = icmp ult i64 %650, 2
  br i1 %651, label %652, label %656

652:                                              ; preds = %648
  %653 = load i64, ptr %41, align 8
  %654 = add i64 %653, -1
  %655 = icmp ult i64 %654, 2
  br i1 %655, label %659, label %656

656:                                              ; preds = %652, %645, %648
  %657 = load i64, ptr %23, align 8
  %658 = add i64 %657, 1
  store i64 %658, ptr %23, align 8
  br label %685

659:                                              ; preds = %652
  %660 = load i64, ptr %42, align 8
  %661 = icmp eq i64 %660, 1
  %662 = getelementptr inbounds i8, ptr %626, i64 16
  %663 = getelementptr inbounds i8, ptr %626, i64 24
  %664 = load ptr, ptr %663, align 8
  %665 = load ptr, ptr %662, align 8
  %666 = getelementptr inbounds i8, ptr %665, i64 8
  store ptr %664, ptr %666, align 8
  %667 = load ptr, ptr %662, align 8
  %668 = load ptr, ptr %663, align 8
  store ptr %667, ptr %668, align 8
  br i1 %661, label %669, label %672

669:                                              ; preds = %659
  %670 = load ptr, ptr %642, align 8
  %671 = getelementptr inbounds i8, ptr %670, i64 8
  br label %675

672:                                              ; preds = %659
  %673 = getelementptr inbounds i8, ptr %642, i64 8
  %674 = load ptr, ptr %673, align 8
  br label %675

675:                                              ; preds = %672, %669
  %676 = phi ptr [ %673, %672 ], [ %671, %669 ]
  %677 = phi ptr [ %642, %672 ], [ %670, %669 ]
  %678 = phi ptr [ %674, %672 ], [ %642, %669 ]
  store ptr %662, ptr %676, align 8
  store ptr %677, ptr %662, align 8
  store ptr %678, ptr %663, align 8
  store ptr %662, ptr %678, align 8
  %679 = select i1 %640, i32 1, i32 2
  %680 = load i32, ptr %630, align 8
  %681 = icmp ne i32 %680, %679
  %682 = zext i1 %681 to i64
  %683 = load i64, ptr %628, align 8
  %684 = add i64 %683, %682
  store i64 %684, ptr %628, align 8
  store i32 %679, ptr %630, align 8
  br label %699

685:                                              ; preds = %656, %638
  %686 = load i8, ptr %37, align 8
  %687 = icmp eq i8 %686, 0
  %688 = icmp eq i32 %633, 0
  %689 = and i1 %688, %687
  br i1 %689, label %690, label %699

690:                                              ; preds = %685
  %691 = getelementptr inbounds i8, ptr %626, i64 16
  %692 = getelementptr inbounds i8, ptr %626, i64 24
  %693 = load ptr, ptr %692, align 8
  %694 = load ptr, ptr %691, align 8
  %695 = getelementptr inbounds i8, ptr %694, i64 8
  store ptr %693, ptr %695, align 8
  %696 = load ptr, ptr %691, align 8
  %697 = load ptr, ptr %692, align 8
  store ptr %696, ptr %697, align 8
  %698 = load ptr, ptr %44, align 8
  store ptr %691, ptr %44, align 8
  store ptr %43, ptr %691, align 8
  store ptr %698, ptr %692, align 8
  store ptr %691, ptr %698, align 8
  br label %699

699:                                              ; preds = %690, %685, %635, %675, %610, %621
  %700 = phi i64 [ %150, %621 ], [ %358, %610 ], [ %150, %675 ], [ %150, %635 ], [ %150, %685 ], [ %150, %690 ]
  %701 = phi i64 [ 4294967295, %621 ], [ %617, %610 ], [ 4294967295, %675 ], [ 4294967295, %635 ], [ 4294967295, %685 ], [ 4294967295, %690 ]
  %702 = load i64, ptr %23, align 8
  %703 = sub i64 %702, %156
  %704 = call i64 @llvm.umin.i64(i64 %703, i64 255)
  %705 = shl nuw nsw i64 %704, 8
  %706 = and i64 %700, 4294902015
  %707 = or disjoint i64 %705, %706
  store i64 %701, ptr %144, align 4
  %708 = getelementptr inbounds i8, ptr %144, i64 8
  %709 = trunc nuw i64 %707 to i32
  store i32 %709, ptr %708, align 4
  %710 = add nuw i64 %138, 1
  %711 = icmp eq i64 %710, %2
  br i1 %711, label %136, label %137
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias nocapture writeonly, ptr noalias nocapture readonly, i64, i1 immarg) #8

define dso_local void @model_task(i64 noundef %0, i64 noundef %1, i64 noundef %2, ptr nocapture noundef %3) local_unnamed_addr #6 {
  %5 = alloca [1 x i64], align 8
  %6 = alloca [1 x i64], align 8
  %7 = load i64, ptr @accel_arena, align 8
  %8 = inttoptr i64 %7 to ptr
  %9 = getelementptr inbounds i8, ptr %8, i64 304
  %10 = load ptr, ptr %9, align 8
  %11 = getelementptr inbounds %struct.tenant, ptr %10, i64 %0
  %12 = getelementptr inbounds i8, ptr %8, i64 312
  store ptr %11, ptr %12, align 8
  %13 = getelementptr inbounds i8, ptr %8, i64 328
  %14 = trunc i64 %2 to i32
  store i64 %0, ptr %13, align 8
  %15 = getelementptr inbounds i8, ptr %8, i64 336
  store i64 0, ptr %15, align 8
  %16 = getelementptr inbounds i8, ptr %8, i64 344
  store i64 %1, ptr %16, align 8
  %17 = getelementptr inbounds i8, ptr %8, i64 352
  store i32 %14, ptr %17, align 8
  %18 = getelementptr inbounds i8, ptr %8, i64 356
  tail call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(52) %18, i8 0, i64 52, i1 false)
  %19 = ptrtoint ptr %13 to i64
  store i64 %19, ptr %5, align 8
  %20 = call i64 @policy_on_task_init(ptr noundef nonnull %5) #14
  %21 = getelementptr inbounds i8, ptr %3, i64 24
  store i64 0, ptr %21, align 8
  %22 = getelementptr inbounds i8, ptr %8, i64 360
  %23 = load i64, ptr %22, align 8
  %24 = icmp eq i64 %23, 0
  br i1 %24, label %35, label %25

25:                                               ; preds = %4
  %26 = getelementptr inbounds i8, ptr %8, i64 368
  %27 = load i64, ptr %26, align 8
  %28 = icmp eq i64 %27, 0
  br i1 %28, label %29, label %34

29:                                               ; preds = %25
  %30 = getelementptr inbounds i8, ptr %8, i64 376
  %31 = load i64, ptr %30, align 8
  %32 = add i64 %31, -1000001
  %33 = icmp ult i64 %32, -1000000
  br i1 %33, label %34, label %35

34:                                               ; preds = %29, %25
  store i64 1, ptr %21, align 8
  br label %35

35:                                               ; preds = %4, %29, %34
  %36 = phi i64 [ %1, %34 ], [ %1, %4 ], [ %31, %29 ]
  store i64 %36, ptr %3, align 8
  %37 = getelementptr inbounds i8, ptr %8, i64 384
  %38 = load i64, ptr %37, align 8
  %39 = icmp eq i64 %38, 0
  br i1 %39, label %51, label %40

40:                                               ; preds = %35
  %41 = getelementptr inbounds i8, ptr %8, i64 392
  %42 = load i64, ptr %41, align 8
  %43 = icmp eq i64 %42, 0
  br i1 %43, label %44, label %48

44:                                               ; preds = %40
  %45 = getelementptr inbounds i8, ptr %8, i64 400
  %46 = load i64, ptr %45, align 8
  %47 = icmp ugt i64 %46, 2
  br i1 %47, label %48, label %51

48:                                               ; preds = %44, %40
  %49 = load i64, ptr %21, align 8
  %50 = add i64 %49, 1
  store i64 %50, ptr %21, align 8
  br label %51

51:                                               ; preds = %35, %44, %48
  %52 = phi i64 [ %2, %48 ], [ %2, %35 ], [ %46, %44 ]
  %53 = getelementptr inbounds i8, ptr %3, i64 8
  store i64 %52, ptr %53, align 8
  %54 = getelementptr inbounds i8, ptr %8, i64 408
  %55 = trunc i64 %52 to i32
  store i64 %0, ptr %54, align 8
  %56 = getelementptr inbounds i8, ptr %8, i64 416
  store i32 0, ptr %56, align 8
  %57 = getelementptr inbounds i8, ptr %8, i64 420
  store i32 1, ptr %57, align 4
  %58 = getelementptr inbounds i8, ptr %8, i64 424
  store i64 %36, ptr %58, align 8
  %59 = getelementptr inbounds i8, ptr %8, i64 432
  store i32 %55, ptr %59, align 8
  %60 = getelementptr inbounds i8, ptr %8, i64 436
  store i32 1, ptr %60, align 4
  %61 = ptrtoint ptr %54 to i64
  store i64 %61, ptr %6, align 8
  %62 = call i64 @policy_on_bind(ptr noundef nonnull %6) #14
  %63 = load i32, ptr %60, align 4
  %64 = icmp ne i32 %63, 0
  %65 = zext i1 %64 to i64
  %66 = getelementptr inbounds i8, ptr %3, i64 16
  store i64 %65, ptr %66, align 8
  ret void
}

declare void @llvm.memset.p0.i64(ptr nocapture writeonly, i8, i64, i1 immarg) #9

declare i64 @policy_on_task_init(ptr noundef) local_unnamed_addr #7

declare i64 @policy_on_bind(ptr noundef) local_unnamed_addr #7

define dso_local void @model_control(i64 noundef %0, i64 noundef %1, i64 noundef %2, ptr nocapture noundef %3) local_unnamed_addr #6 {
  %5 = alloca [1 x i64], align 8
  store i64 %1, ptr %3, align 8
  %6 = getelementptr inbounds i8, ptr %3, i64 8
  store i64 0, ptr %6, align 8
  %7 = icmp ugt i64 %1, 1000000
  br i1 %7, label %47, label %8

8:                                                ; preds = %4
  %9 = load i64, ptr @accel_arena, align 8
  %10 = inttoptr i64 %9 to ptr
  %11 = getelementptr inbounds i8, ptr %10, i64 304
  %12 = load ptr, ptr %11, align 8
  %13 = getelementptr inbounds %struct.tenant, ptr %12, i64 %0
  %14 = getelementptr inbounds i8, ptr %10, i64 312
  store ptr %13, ptr %14, align 8
  %15 = getelementptr inbounds i8, ptr %10, i64 456
  %16 = trunc i64 %0 to i32
  %17 = add i32 %16, 1
  store i64 %0, ptr %15, align 8
  %18 = getelementptr inbounds i8, ptr %10, i64 464
  store i64 %1, ptr %18, align 8
  %19 = getelementptr inbounds i8, ptr %10, i64 472
  store i32 0, ptr %19, align 8
  %20 = getelementptr inbounds i8, ptr %10, i64 476
  store i32 0, ptr %20, align 4
  %21 = getelementptr inbounds i8, ptr %10, i64 480
  store i32 %17, ptr %21, align 8
  %22 = getelementptr inbounds i8, ptr %10, i64 484
  store i32 %17, ptr %22, align 4
  %23 = getelementptr inbounds i8, ptr %10, i64 488
  store i32 0, ptr %23, align 8
  %24 = getelementptr inbounds i8, ptr %10, i64 492
  store i32 1, ptr %24, align 4
  %25 = getelementptr inbounds i8, ptr %10, i64 496
  tail call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(24) %25, i8 0, i64 24, i1 false)
  %26 = ptrtoint ptr %15 to i64
  store i64 %26, ptr %5, align 8
  %27 = call i64 @policy_on_timeslice_control(ptr noundef nonnull %5) #14
  %28 = load i64, ptr %25, align 8
  %29 = icmp eq i64 %28, 0
  br i1 %29, label %42, label %30

30:                                               ; preds = %8
  %31 = getelementptr inbounds i8, ptr %10, i64 504
  %32 = load i64, ptr %31, align 8
  %33 = icmp eq i64 %32, 0
  br i1 %33, label %34, label %39

34:                                               ; preds = %30
  %35 = getelementptr inbounds i8, ptr %10, i64 512
  %36 = load i64, ptr %35, align 8
  %37 = add i64 %36, -1000001
  %38 = icmp ult i64 %37, -1000000
  br i1 %38, label %39, label %42

39:                                               ; preds = %34, %30
  %40 = load i64, ptr %6, align 8
  %41 = add i64 %40, 1
  store i64 %41, ptr %6, align 8
  br label %42

42:                                               ; preds = %8, %34, %39
  %43 = phi i64 [ %1, %39 ], [ %1, %8 ], [ %36, %34 ]
  store i64 %43, ptr %3, align 8
  %44 = load i64, ptr %6, align 8
  %45 = icmp eq i64 %44, 0
  %46 = select i1 %45, i64 %43, i64 0
  store i64 %46, ptr %3, align 8
  br label %47

47:                                               ; preds = %42, %4
  ret void
}

declare i64 @policy_on_timeslice_control(ptr noundef) local_unnamed_addr #7

define dso_local void @model_launch(i64 noundef %0, i64 noundef %1, i64 noundef %2, ptr nocapture noundef writeonly %3) local_unnamed_addr #6 {
  %5 = load i64, ptr @accel_arena, align 8
  %6 = inttoptr i64 %5 to ptr
  %7 = getelementptr inbounds i8, ptr %6, i64 304
  %8 = load ptr, ptr %7, align 8
  %9 = getelementptr inbounds %struct.tenant, ptr %8, i64 %0
  %10 = getelementptr inbounds i8, ptr %6, i64 312
  store ptr %9, ptr %10, align 8
  %11 = getelementptr inbounds i8, ptr %6, i64 520
  br label %15

12:                                               ; preds = %15
  %13 = icmp eq i64 %1, 0
  %14 = getelementptr inbounds i8, ptr %6, i64 552
  br i1 %13, label %22, label %20

15:                                               ; preds = %4, %15
  %16 = phi i64 [ 0, %4 ], [ %18, %15 ]
  %17 = getelementptr inbounds [4 x i64], ptr %11, i64 0, i64 %16
  store i64 0, ptr %17, align 8
  %18 = add nuw nsw i64 %16, 1
  %19 = icmp eq i64 %18, 4
  br i1 %19, label %12, label %15

20:                                               ; preds = %12
  %21 = tail call i64 @policy_launched(ptr noundef nonnull %14) #14
  br label %24

22:                                               ; preds = %12
  %23 = tail call i64 @policy_launch(ptr noundef nonnull %14) #14
  br label %24

24:                                               ; preds = %22, %20
  %25 = getelementptr inbounds i8, ptr %6, i64 520
  br label %27

26:                                               ; preds = %27
  ret void

27:                                               ; preds = %24, %27
  %28 = phi i64 [ 0, %24 ], [ %32, %27 ]
  %29 = getelementptr inbounds [4 x i64], ptr %25, i64 0, i64 %28
  %30 = load i64, ptr %29, align 8
  %31 = getelementptr inbounds i64, ptr %3, i64 %28
  store i64 %30, ptr %31, align 8
  %32 = add nuw nsw i64 %28, 1
  %33 = icmp eq i64 %32, 4
  br i1 %33, label %26, label %27
}

declare i64 @policy_launched(ptr noundef) local_unnamed_addr #7

declare i64 @policy_launch(ptr noundef) local_unnamed_addr #7

define dso_local void @model_task_end(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3) local_unnamed_addr #6 {
  %5 = alloca [1 x i64], align 8
  %6 = load i64, ptr @accel_arena, align 8
  %7 = inttoptr i64 %6 to ptr
  %8 = getelementptr inbounds i8, ptr %7, i64 304
  %9 = load ptr, ptr %8, align 8
  %10 = getelementptr inbounds %struct.tenant, ptr %9, i64 %0
  %11 = getelementptr inbounds i8, ptr %7, i64 312
  store ptr %10, ptr %11, align 8
  %12 = getelementptr inbounds i8, ptr %7, i64 440
  store i64 %0, ptr %12, align 8
  %13 = ptrtoint ptr %12 to i64
  store i64 %13, ptr %5, align 8
  %14 = call i64 @policy_on_task_destroy(ptr noundef nonnull %5) #14
  ret void
}

declare i64 @policy_on_task_destroy(ptr noundef) local_unnamed_addr #7

declare i64 @llvm.ctpop.i64(i64) #10

declare void @llvm.lifetime.start.p0(i64 immarg, ptr nocapture) #11

declare void @llvm.lifetime.end.p0(i64 immarg, ptr nocapture) #11

declare void @llvm.memmove.p0.p0.i64(ptr nocapture writeonly, ptr nocapture readonly, i64, i1 immarg) #12

declare i64 @llvm.umin.i64(i64, i64) #13

attributes #0 = { mustprogress nofree norecurse nosync nounwind willreturn memory(none) "no-builtins" }
attributes #1 = { mustprogress nofree norecurse nosync nounwind willreturn memory(readwrite, inaccessiblemem: none) "no-builtins" }
attributes #2 = { nofree norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) "no-builtins" }
attributes #3 = { nofree noinline norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) "no-builtins" }
attributes #4 = { mustprogress nocallback nofree nosync nounwind willreturn memory(none) }
attributes #5 = { mustprogress nofree norecurse nosync nounwind willreturn memory(write, inaccessiblemem: none) "no-builtins" }
attributes #6 = { nounwind "no-builtins" }
attributes #7 = { "no-builtins" }
attributes #8 = { mustprogress nocallback nofree nounwind willreturn memory(argmem: readwrite) }
attributes #9 = { mustprogress nocallback nofree nounwind willreturn memory(argmem: write) }
attributes #10 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #11 = { nocallback nofree nosync nounwind willreturn memory(argmem: readwrite) }
attributes #12 = { nocallback nofree nounwind willreturn memory(argmem: readwrite) }
attributes #13 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #14 = { nobuiltin nounwind "no-builtins" }
