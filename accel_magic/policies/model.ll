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
%struct.access = type { i32, i16, i16, i8, i8, i16 }

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
  %8 = getelementptr inbounds i8, ptr %7, i64 120
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

declare void @llvm.lifetime.start.p0(i64 immarg, ptr nocapture) #2

declare void @llvm.lifetime.end.p0(i64 immarg, ptr nocapture) #2

define dso_local noundef i64 @accel_helper_16(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #3 {
  %6 = icmp eq i64 %1, 0
  br i1 %6, label %12, label %7

7:                                                ; preds = %5
  %8 = load i64, ptr @accel_arena, align 8
  %9 = inttoptr i64 %8 to ptr
  %10 = getelementptr inbounds i8, ptr %9, i64 112
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

define dso_local range(i64 -14, 1) i64 @accel_helper_113(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
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

declare ptr @llvm.frameaddress.p0(i32 immarg) #5

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

define dso_local noundef i64 @accel_helper_10004(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #6 {
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
  %14 = getelementptr inbounds i8, ptr %13, i64 16
  %15 = load i64, ptr %14, align 8
  %16 = icmp ule i64 %15, %11
  %17 = icmp ugt i32 %7, 255
  %18 = or i1 %17, %16
  br i1 %18, label %29, label %19

19:                                               ; preds = %10
  %20 = and i32 %7, 63
  %21 = zext nneg i32 %20 to i64
  %22 = shl nuw i64 1, %21
  %23 = getelementptr inbounds i8, ptr %13, i64 544
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

define dso_local void @model_start(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3) local_unnamed_addr #3 {
  %5 = load i64, ptr @accel_arena, align 8
  %6 = inttoptr i64 %5 to ptr
  store i64 %0, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %8, align 8
  %9 = getelementptr inbounds i8, ptr %6, i64 24
  store i64 %3, ptr %9, align 8
  %10 = getelementptr inbounds i8, ptr %6, i64 120
  store i64 88172645463325252, ptr %10, align 8
  %11 = add i64 %5, 1024
  %12 = inttoptr i64 %11 to ptr
  %13 = getelementptr inbounds i8, ptr %6, i64 88
  store ptr %12, ptr %13, align 8
  %14 = getelementptr inbounds %struct.uvm_gpu_root_chunk_struct, ptr %12, i64 %0
  %15 = getelementptr inbounds i8, ptr %6, i64 96
  store ptr %14, ptr %15, align 8
  %16 = getelementptr inbounds %struct.uvm_va_block_struct, ptr %14, i64 %1
  %17 = getelementptr inbounds i8, ptr %6, i64 104
  store ptr %16, ptr %17, align 8
  %18 = getelementptr inbounds i8, ptr %6, i64 112
  store ptr %16, ptr %18, align 8
  %19 = getelementptr inbounds i8, ptr %6, i64 128
  %20 = getelementptr inbounds i8, ptr %6, i64 136
  store ptr %19, ptr %20, align 8
  store ptr %19, ptr %19, align 8
  %21 = getelementptr inbounds i8, ptr %6, i64 144
  %22 = getelementptr inbounds i8, ptr %6, i64 152
  store ptr %21, ptr %22, align 8
  store ptr %21, ptr %21, align 8
  %23 = getelementptr inbounds i8, ptr %6, i64 160
  %24 = getelementptr inbounds i8, ptr %6, i64 168
  store ptr %23, ptr %24, align 8
  store ptr %23, ptr %23, align 8
  %25 = icmp eq i64 %0, 0
  br i1 %25, label %28, label %26

26:                                               ; preds = %4
  %27 = getelementptr inbounds i8, ptr %6, i64 136
  br label %30

28:                                               ; preds = %30, %4
  %29 = icmp eq i64 %1, 0
  br i1 %29, label %41, label %43

30:                                               ; preds = %26, %30
  %31 = phi i64 [ 0, %26 ], [ %39, %30 ]
  %32 = shl i64 %31, 21
  %33 = load ptr, ptr %13, align 8
  %34 = getelementptr inbounds %struct.uvm_gpu_root_chunk_struct, ptr %33, i64 %31
  store i64 %32, ptr %34, align 8
  %35 = load ptr, ptr %13, align 8
  %36 = getelementptr inbounds %struct.uvm_gpu_root_chunk_struct, ptr %35, i64 %31, i32 0, i32 2
  %37 = load ptr, ptr %27, align 8
  store ptr %36, ptr %20, align 8
  store ptr %19, ptr %36, align 8
  %38 = getelementptr inbounds i8, ptr %36, i64 8
  store ptr %37, ptr %38, align 8
  store ptr %36, ptr %37, align 8
  %39 = add nuw i64 %31, 1
  %40 = icmp eq i64 %39, %0
  br i1 %40, label %28, label %30

41:                                               ; preds = %43, %28
  %42 = icmp eq i64 %2, 0
  br i1 %42, label %54, label %55

43:                                               ; preds = %28, %43
  %44 = phi i64 [ %48, %43 ], [ 0, %28 ]
  %45 = shl i64 %44, 21
  %46 = load ptr, ptr %15, align 8
  %47 = getelementptr inbounds %struct.uvm_va_block_struct, ptr %46, i64 %44, i32 1
  store i64 %45, ptr %47, align 8
  %48 = add nuw i64 %44, 1
  %49 = shl i64 %48, 21
  %50 = add i64 %49, -1
  %51 = load ptr, ptr %15, align 8
  %52 = getelementptr inbounds %struct.uvm_va_block_struct, ptr %51, i64 %44, i32 2
  store i64 %50, ptr %52, align 8
  %53 = icmp eq i64 %48, %1
  br i1 %53, label %41, label %43

54:                                               ; preds = %55, %41
  ret void

55:                                               ; preds = %41, %55
  %56 = phi i64 [ %65, %55 ], [ 0, %41 ]
  %57 = load ptr, ptr %17, align 8
  %58 = getelementptr inbounds %struct.tenant, ptr %57, i64 %56
  %59 = trunc i64 %56 to i32
  %60 = add nsw i32 %59, 1000
  %61 = getelementptr inbounds i8, ptr %58, i64 4
  store i32 %60, ptr %61, align 4
  store i32 %60, ptr %58, align 8
  %62 = getelementptr inbounds i8, ptr %58, i64 24
  store ptr %58, ptr %62, align 8
  %63 = getelementptr inbounds i8, ptr %58, i64 32
  store ptr %62, ptr %63, align 8
  %64 = getelementptr inbounds i8, ptr %58, i64 40
  store ptr %63, ptr %64, align 8
  %65 = add nuw i64 %56, 1
  %66 = icmp eq i64 %65, %2
  br i1 %66, label %54, label %55
}

define dso_local void @model_run(ptr nocapture noundef readonly %0, ptr nocapture noundef readonly %1, i64 noundef %2, ptr nocapture noundef %3) local_unnamed_addr #7 {
  %5 = alloca [5 x i64], align 16
  %6 = alloca [28 x i8], align 4
  %7 = alloca [28 x i8], align 4
  %8 = alloca [28 x i8], align 4
  %9 = alloca [4 x i64], align 16
  %10 = alloca [3 x i64], align 16
  %11 = alloca [3 x i64], align 16
  %12 = alloca [3 x i64], align 16
  %13 = alloca [3 x i64], align 16
  %14 = load i64, ptr @accel_arena, align 8
  %15 = inttoptr i64 %14 to ptr
  %16 = getelementptr inbounds i8, ptr %15, i64 32
  %17 = load i64, ptr %16, align 8
  %18 = add i64 %17, %2
  store i64 %18, ptr %16, align 8
  %19 = icmp eq i64 %2, 0
  br i1 %19, label %137, label %20

20:                                               ; preds = %4
  %21 = getelementptr inbounds i8, ptr %15, i64 104
  %22 = getelementptr inbounds i8, ptr %15, i64 112
  %23 = getelementptr inbounds i8, ptr %15, i64 96
  %24 = getelementptr inbounds i8, ptr %15, i64 24
  %25 = getelementptr inbounds i8, ptr %15, i64 128
  %26 = ptrtoint ptr %25 to i64
  %27 = getelementptr inbounds i8, ptr %12, i64 8
  %28 = getelementptr inbounds i8, ptr %12, i64 16
  %29 = getelementptr inbounds i8, ptr %15, i64 280
  %30 = getelementptr inbounds i8, ptr %15, i64 288
  %31 = getelementptr inbounds i8, ptr %15, i64 296
  %32 = getelementptr inbounds i8, ptr %15, i64 304
  %33 = getelementptr inbounds i8, ptr %15, i64 312
  %34 = getelementptr inbounds i8, ptr %15, i64 320
  %35 = getelementptr inbounds i8, ptr %15, i64 324
  %36 = ptrtoint ptr %29 to i64
  %37 = getelementptr inbounds i8, ptr %15, i64 328
  %38 = getelementptr inbounds i8, ptr %15, i64 336
  %39 = getelementptr inbounds i8, ptr %15, i64 344
  %40 = getelementptr inbounds i8, ptr %15, i64 329
  %41 = getelementptr inbounds i8, ptr %15, i64 80
  %42 = getelementptr inbounds i8, ptr %15, i64 144
  %43 = getelementptr inbounds i8, ptr %15, i64 152
  %44 = getelementptr inbounds i8, ptr %15, i64 80
  %45 = getelementptr inbounds i8, ptr %15, i64 40
  %46 = getelementptr inbounds i8, ptr %15, i64 128
  %47 = ptrtoint ptr %46 to i64
  %48 = getelementptr inbounds i8, ptr %13, i64 8
  %49 = getelementptr inbounds i8, ptr %13, i64 16
  %50 = getelementptr inbounds i8, ptr %15, i64 280
  %51 = getelementptr inbounds i8, ptr %15, i64 288
  %52 = getelementptr inbounds i8, ptr %15, i64 296
  %53 = getelementptr inbounds i8, ptr %15, i64 304
  %54 = getelementptr inbounds i8, ptr %15, i64 312
  %55 = getelementptr inbounds i8, ptr %15, i64 320
  %56 = getelementptr inbounds i8, ptr %15, i64 324
  %57 = ptrtoint ptr %50 to i64
  %58 = getelementptr inbounds i8, ptr %15, i64 328
  %59 = getelementptr inbounds i8, ptr %15, i64 336
  %60 = getelementptr inbounds i8, ptr %15, i64 344
  %61 = getelementptr inbounds i8, ptr %15, i64 329
  %62 = getelementptr inbounds i8, ptr %15, i64 80
  %63 = getelementptr inbounds i8, ptr %15, i64 144
  %64 = getelementptr inbounds i8, ptr %15, i64 152
  %65 = getelementptr inbounds i8, ptr %15, i64 80
  %66 = getelementptr inbounds i8, ptr %15, i64 48
  %67 = getelementptr inbounds i8, ptr %15, i64 128
  %68 = getelementptr inbounds i8, ptr %15, i64 144
  %69 = getelementptr inbounds i8, ptr %15, i64 160
  %70 = ptrtoint ptr %67 to i64
  %71 = getelementptr inbounds i8, ptr %11, i64 8
  %72 = ptrtoint ptr %68 to i64
  %73 = getelementptr inbounds i8, ptr %11, i64 16
  %74 = ptrtoint ptr %69 to i64
  %75 = getelementptr inbounds i8, ptr %15, i64 56
  %76 = getelementptr inbounds i8, ptr %15, i64 72
  %77 = getelementptr inbounds i8, ptr %15, i64 144
  %78 = getelementptr inbounds i8, ptr %15, i64 152
  %79 = ptrtoint ptr %67 to i64
  %80 = getelementptr inbounds i8, ptr %10, i64 8
  %81 = getelementptr inbounds i8, ptr %10, i64 16
  %82 = getelementptr inbounds i8, ptr %15, i64 280
  %83 = getelementptr inbounds i8, ptr %15, i64 288
  %84 = getelementptr inbounds i8, ptr %15, i64 296
  %85 = getelementptr inbounds i8, ptr %15, i64 304
  %86 = getelementptr inbounds i8, ptr %15, i64 312
  %87 = getelementptr inbounds i8, ptr %15, i64 320
  %88 = getelementptr inbounds i8, ptr %15, i64 324
  %89 = ptrtoint ptr %82 to i64
  %90 = getelementptr inbounds i8, ptr %15, i64 328
  %91 = getelementptr inbounds i8, ptr %15, i64 336
  %92 = getelementptr inbounds i8, ptr %15, i64 344
  %93 = getelementptr inbounds i8, ptr %15, i64 160
  %94 = getelementptr inbounds i8, ptr %15, i64 329
  %95 = getelementptr inbounds i8, ptr %15, i64 80
  %96 = getelementptr inbounds i8, ptr %15, i64 64
  %97 = getelementptr inbounds i8, ptr %9, i64 8
  %98 = getelementptr inbounds i8, ptr %15, i64 176
  %99 = ptrtoint ptr %98 to i64
  %100 = getelementptr inbounds i8, ptr %9, i64 16
  %101 = getelementptr inbounds i8, ptr %15, i64 248
  %102 = ptrtoint ptr %101 to i64
  %103 = getelementptr inbounds i8, ptr %9, i64 24
  %104 = getelementptr inbounds i8, ptr %15, i64 256
  %105 = ptrtoint ptr %104 to i64
  %106 = getelementptr inbounds i8, ptr %15, i64 688
  %107 = getelementptr inbounds i8, ptr %15, i64 672
  %108 = getelementptr inbounds i8, ptr %15, i64 648
  %109 = getelementptr inbounds i8, ptr %15, i64 640
  %110 = getelementptr inbounds i8, ptr %15, i64 576
  %111 = getelementptr inbounds i8, ptr %15, i64 240
  %112 = getelementptr inbounds i8, ptr %15, i64 242
  %113 = getelementptr inbounds i8, ptr %15, i64 244
  %114 = getelementptr inbounds i8, ptr %15, i64 250
  %115 = getelementptr inbounds i8, ptr %15, i64 264
  %116 = getelementptr inbounds i8, ptr %15, i64 272
  %117 = getelementptr inbounds i8, ptr %15, i64 257
  %118 = getelementptr inbounds i8, ptr %15, i64 272
  %119 = getelementptr inbounds i8, ptr %15, i64 272
  %120 = getelementptr inbounds i8, ptr %15, i64 252
  %121 = getelementptr inbounds i8, ptr %15, i64 254
  %122 = getelementptr inbounds i8, ptr %5, i64 8
  %123 = getelementptr inbounds i8, ptr %5, i64 16
  %124 = ptrtoint ptr %120 to i64
  %125 = getelementptr inbounds i8, ptr %5, i64 24
  %126 = getelementptr inbounds i8, ptr %5, i64 32
  %127 = getelementptr inbounds i8, ptr %15, i64 264
  %128 = getelementptr inbounds i8, ptr %15, i64 272
  %129 = getelementptr inbounds i8, ptr %15, i64 257
  %130 = getelementptr inbounds i8, ptr %15, i64 272
  %131 = getelementptr inbounds i8, ptr %15, i64 272
  %132 = getelementptr inbounds i8, ptr %15, i64 80
  %133 = getelementptr inbounds i8, ptr %15, i64 80
  %134 = getelementptr inbounds i8, ptr %7, i64 4
  %135 = getelementptr inbounds i8, ptr %6, i64 4
  %136 = getelementptr inbounds i8, ptr %8, i64 4
  br label %138

137:                                              ; preds = %717, %4
  ret void

138:                                              ; preds = %20, %717
  %139 = phi i64 [ 0, %20 ], [ %718, %717 ]
  %140 = getelementptr inbounds %struct.access, ptr %3, i64 %139
  store i32 -1, ptr %140, align 4
  %141 = getelementptr inbounds i8, ptr %140, i64 4
  store i16 0, ptr %141, align 4
  %142 = getelementptr inbounds i8, ptr %140, i64 6
  store i16 0, ptr %142, align 2
  %143 = getelementptr inbounds i8, ptr %140, i64 8
  store i8 0, ptr %143, align 4
  %144 = getelementptr inbounds i8, ptr %140, i64 9
  store i8 0, ptr %144, align 1
  %145 = getelementptr inbounds i8, ptr %140, i64 10
  store i16 0, ptr %145, align 2
  %146 = load ptr, ptr %21, align 8
  %147 = getelementptr inbounds i16, ptr %1, i64 %139
  %148 = load i16, ptr %147, align 2
  %149 = zext i16 %148 to i64
  %150 = getelementptr inbounds %struct.tenant, ptr %146, i64 %149
  store ptr %150, ptr %22, align 8
  %151 = getelementptr inbounds i64, ptr %0, i64 %139
  %152 = load i64, ptr %151, align 8
  %153 = load ptr, ptr %23, align 8
  %154 = lshr i64 %152, 9
  %155 = getelementptr inbounds %struct.uvm_va_block_struct, ptr %153, i64 %154
  %156 = trunc i64 %152 to i32
  %157 = and i32 %156, 511
  %158 = getelementptr inbounds i8, ptr %155, i64 32
  %159 = lshr i32 %157, 6
  %160 = zext nneg i32 %159 to i64
  %161 = getelementptr inbounds [8 x i64], ptr %158, i64 0, i64 %160
  %162 = load i64, ptr %161, align 8
  %163 = and i64 %152, 63
  %164 = shl nuw i64 1, %163
  %165 = and i64 %162, %164
  %166 = icmp eq i64 %165, 0
  br i1 %166, label %252, label %167

167:                                              ; preds = %138
  %168 = load i64, ptr %24, align 8
  %169 = icmp eq i64 %168, 0
  br i1 %169, label %717, label %170

170:                                              ; preds = %167
  %171 = getelementptr inbounds i8, ptr %155, i64 24
  %172 = load ptr, ptr %171, align 8
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %12) #13
  store i64 %26, ptr %12, align 16
  %173 = ptrtoint ptr %172 to i64
  store i64 %173, ptr %27, align 8
  call void @llvm.lifetime.start.p0(i64 28, ptr nonnull %7)
  %174 = getelementptr inbounds i8, ptr %172, i64 40
  %175 = load i64, ptr %174, align 8
  %176 = getelementptr inbounds i8, ptr %172, i64 48
  %177 = load i32, ptr %176, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(24) %134, i8 0, i64 24, i1 false)
  store ptr %25, ptr %29, align 8
  store ptr %172, ptr %30, align 8
  store i64 %26, ptr %31, align 8
  store i64 %173, ptr %32, align 8
  store i64 %175, ptr %33, align 8
  store i32 %177, ptr %34, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(28) %35, ptr noundef nonnull align 4 dereferenceable(28) %7, i64 28, i1 false)
  call void @llvm.lifetime.end.p0(i64 28, ptr nonnull %7)
  store i64 %36, ptr %28, align 16
  %178 = call i64 @policy_gpu_block_access(ptr noundef nonnull %12) #14
  %179 = trunc i64 %178 to i32
  %180 = icmp ugt i32 %179, 1
  br i1 %180, label %181, label %188

181:                                              ; preds = %170
  %182 = load i64, ptr %44, align 8
  %183 = add i64 %182, 1
  store i64 %183, ptr %44, align 8
  %184 = load i8, ptr %144, align 1
  %185 = icmp ne i8 %184, -1
  %186 = zext i1 %185 to i8
  %187 = add i8 %184, %186
  store i8 %187, ptr %144, align 1
  br label %251

188:                                              ; preds = %170
  %189 = load i64, ptr %38, align 8
  %190 = icmp eq i64 %189, 1
  %191 = load i64, ptr %39, align 8
  %192 = select i1 %190, i64 144, i64 160
  %193 = getelementptr inbounds i8, ptr %15, i64 %192
  %194 = load i8, ptr %37, align 8
  %195 = icmp eq i8 %194, 0
  br i1 %195, label %237, label %196

196:                                              ; preds = %188
  %197 = load i8, ptr %40, align 1
  %198 = icmp eq i8 %197, 0
  %199 = add i64 %189, -1
  %200 = icmp ult i64 %199, 2
  %201 = select i1 %198, i1 %200, i1 false
  br i1 %201, label %202, label %203

202:                                              ; preds = %196
  switch i64 %191, label %203 [
    i64 1, label %210
    i64 2, label %220
  ]

203:                                              ; preds = %202, %196
  %204 = load i64, ptr %41, align 8
  %205 = add i64 %204, 1
  store i64 %205, ptr %41, align 8
  %206 = load i8, ptr %144, align 1
  %207 = icmp ne i8 %206, -1
  %208 = zext i1 %207 to i8
  %209 = add i8 %206, %208
  store i8 %209, ptr %144, align 1
  br label %237

210:                                              ; preds = %202
  %211 = getelementptr inbounds i8, ptr %172, i64 16
  %212 = getelementptr inbounds i8, ptr %172, i64 24
  %213 = load ptr, ptr %212, align 8
  %214 = load ptr, ptr %211, align 8
  %215 = getelementptr inbounds i8, ptr %214, i64 8
  store ptr %213, ptr %215, align 8
  %216 = load ptr, ptr %211, align 8
  %217 = load ptr, ptr %212, align 8
  store ptr %216, ptr %217, align 8
  %218 = load ptr, ptr %193, align 8
  %219 = getelementptr inbounds i8, ptr %218, i64 8
  store ptr %211, ptr %219, align 8
  store ptr %218, ptr %211, align 8
  store ptr %193, ptr %212, align 8
  store ptr %211, ptr %193, align 8
  br label %230

220:                                              ; preds = %202
  %221 = getelementptr inbounds i8, ptr %172, i64 16
  %222 = getelementptr inbounds i8, ptr %172, i64 24
  %223 = load ptr, ptr %222, align 8
  %224 = load ptr, ptr %221, align 8
  %225 = getelementptr inbounds i8, ptr %224, i64 8
  store ptr %223, ptr %225, align 8
  %226 = load ptr, ptr %221, align 8
  %227 = load ptr, ptr %222, align 8
  store ptr %226, ptr %227, align 8
  %228 = getelementptr inbounds i8, ptr %193, i64 8
  %229 = load ptr, ptr %228, align 8
  store ptr %221, ptr %228, align 8
  store ptr %193, ptr %221, align 8
  store ptr %229, ptr %222, align 8
  store ptr %221, ptr %229, align 8
  br label %230

230:                                              ; preds = %220, %210
  %231 = select i1 %190, i32 1, i32 2
  %232 = load i32, ptr %176, align 8
  %233 = icmp ne i32 %232, %231
  %234 = zext i1 %233 to i64
  %235 = load i64, ptr %174, align 8
  %236 = add i64 %235, %234
  store i64 %236, ptr %174, align 8
  store i32 %231, ptr %176, align 8
  br label %251

237:                                              ; preds = %188, %203
  %238 = load i8, ptr %37, align 8
  %239 = icmp eq i8 %238, 0
  %240 = icmp eq i32 %179, 0
  %241 = and i1 %240, %239
  br i1 %241, label %242, label %251

242:                                              ; preds = %237
  %243 = getelementptr inbounds i8, ptr %172, i64 16
  %244 = getelementptr inbounds i8, ptr %172, i64 24
  %245 = load ptr, ptr %244, align 8
  %246 = load ptr, ptr %243, align 8
  %247 = getelementptr inbounds i8, ptr %246, i64 8
  store ptr %245, ptr %247, align 8
  %248 = load ptr, ptr %243, align 8
  %249 = load ptr, ptr %244, align 8
  store ptr %248, ptr %249, align 8
  %250 = load ptr, ptr %43, align 8
  store ptr %243, ptr %43, align 8
  store ptr %42, ptr %243, align 8
  store ptr %250, ptr %244, align 8
  store ptr %243, ptr %250, align 8
  br label %251

251:                                              ; preds = %230, %181, %237, %242
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %12) #13
  br label %717

252:                                              ; preds = %138
  %253 = load i64, ptr %45, align 8
  %254 = add i64 %253, 1
  store i64 %254, ptr %45, align 8
  store i8 1, ptr %143, align 4
  %255 = load ptr, ptr %155, align 8
  %256 = icmp eq ptr %255, null
  br i1 %256, label %257, label %260

257:                                              ; preds = %252
  %258 = load ptr, ptr %22, align 8
  %259 = getelementptr inbounds i8, ptr %258, i64 40
  store ptr %259, ptr %155, align 8
  br label %260

260:                                              ; preds = %257, %252
  %261 = getelementptr inbounds i8, ptr %155, i64 24
  %262 = load ptr, ptr %261, align 8
  %263 = icmp eq ptr %262, null
  br i1 %263, label %344, label %264

264:                                              ; preds = %260
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %13) #13
  store i64 %47, ptr %13, align 16
  %265 = ptrtoint ptr %262 to i64
  store i64 %265, ptr %48, align 8
  call void @llvm.lifetime.start.p0(i64 28, ptr nonnull %6)
  %266 = getelementptr inbounds i8, ptr %262, i64 40
  %267 = load i64, ptr %266, align 8
  %268 = getelementptr inbounds i8, ptr %262, i64 48
  %269 = load i32, ptr %268, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(24) %135, i8 0, i64 24, i1 false)
  store ptr %46, ptr %50, align 8
  store ptr %262, ptr %51, align 8
  store i64 %47, ptr %52, align 8
  store i64 %265, ptr %53, align 8
  store i64 %267, ptr %54, align 8
  store i32 %269, ptr %55, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(28) %56, ptr noundef nonnull align 4 dereferenceable(28) %6, i64 28, i1 false)
  call void @llvm.lifetime.end.p0(i64 28, ptr nonnull %6)
  store i64 %57, ptr %49, align 16
  %270 = call i64 @policy_gpu_block_access(ptr noundef nonnull %13) #14
  %271 = trunc i64 %270 to i32
  %272 = icmp ugt i32 %271, 1
  br i1 %272, label %273, label %280

273:                                              ; preds = %264
  %274 = load i64, ptr %65, align 8
  %275 = add i64 %274, 1
  store i64 %275, ptr %65, align 8
  %276 = load i8, ptr %144, align 1
  %277 = icmp ne i8 %276, -1
  %278 = zext i1 %277 to i8
  %279 = add i8 %276, %278
  store i8 %279, ptr %144, align 1
  br label %343

280:                                              ; preds = %264
  %281 = load i64, ptr %59, align 8
  %282 = icmp eq i64 %281, 1
  %283 = load i64, ptr %60, align 8
  %284 = select i1 %282, i64 144, i64 160
  %285 = getelementptr inbounds i8, ptr %15, i64 %284
  %286 = load i8, ptr %58, align 8
  %287 = icmp eq i8 %286, 0
  br i1 %287, label %329, label %288

288:                                              ; preds = %280
  %289 = load i8, ptr %61, align 1
  %290 = icmp eq i8 %289, 0
  %291 = add i64 %281, -1
  %292 = icmp ult i64 %291, 2
  %293 = select i1 %290, i1 %292, i1 false
  br i1 %293, label %294, label %295

294:                                              ; preds = %288
  switch i64 %283, label %295 [
    i64 1, label %302
    i64 2, label %312
  ]

295:                                              ; preds = %294, %288
  %296 = load i64, ptr %62, align 8
  %297 = add i64 %296, 1
  store i64 %297, ptr %62, align 8
  %298 = load i8, ptr %144, align 1
  %299 = icmp ne i8 %298, -1
  %300 = zext i1 %299 to i8
  %301 = add i8 %298, %300
  store i8 %301, ptr %144, align 1
  br label %329

302:                                              ; preds = %294
  %303 = getelementptr inbounds i8, ptr %262, i64 16
  %304 = getelementptr inbounds i8, ptr %262, i64 24
  %305 = load ptr, ptr %304, align 8
  %306 = load ptr, ptr %303, align 8
  %307 = getelementptr inbounds i8, ptr %306, i64 8
  store ptr %305, ptr %307, align 8
  %308 = load ptr, ptr %303, align 8
  %309 = load ptr, ptr %304, align 8
  store ptr %308, ptr %309, align 8
  %310 = load ptr, ptr %285, align 8
  %311 = getelementptr inbounds i8, ptr %310, i64 8
  store ptr %303, ptr %311, align 8
  store ptr %310, ptr %303, align 8
  store ptr %285, ptr %304, align 8
  store ptr %303, ptr %285, align 8
  br label %322

312:                                              ; preds = %294
  %313 = getelementptr inbounds i8, ptr %262, i64 16
  %314 = getelementptr inbounds i8, ptr %262, i64 24
  %315 = load ptr, ptr %314, align 8
  %316 = load ptr, ptr %313, align 8
  %317 = getelementptr inbounds i8, ptr %316, i64 8
  store ptr %315, ptr %317, align 8
  %318 = load ptr, ptr %313, align 8
  %319 = load ptr, ptr %314, align 8
  store ptr %318, ptr %319, align 8
  %320 = getelementptr inbounds i8, ptr %285, i64 8
  %321 = load ptr, ptr %320, align 8
  store ptr %313, ptr %320, align 8
  store ptr %285, ptr %313, align 8
  store ptr %321, ptr %314, align 8
  store ptr %313, ptr %321, align 8
  br label %322

322:                                              ; preds = %312, %302
  %323 = select i1 %282, i32 1, i32 2
  %324 = load i32, ptr %268, align 8
  %325 = icmp ne i32 %324, %323
  %326 = zext i1 %325 to i64
  %327 = load i64, ptr %266, align 8
  %328 = add i64 %327, %326
  store i64 %328, ptr %266, align 8
  store i32 %323, ptr %268, align 8
  br label %343

329:                                              ; preds = %280, %295
  %330 = load i8, ptr %58, align 8
  %331 = icmp eq i8 %330, 0
  %332 = icmp eq i32 %271, 0
  %333 = and i1 %332, %331
  br i1 %333, label %334, label %343

334:                                              ; preds = %329
  %335 = getelementptr inbounds i8, ptr %262, i64 16
  %336 = getelementptr inbounds i8, ptr %262, i64 24
  %337 = load ptr, ptr %336, align 8
  %338 = load ptr, ptr %335, align 8
  %339 = getelementptr inbounds i8, ptr %338, i64 8
  store ptr %337, ptr %339, align 8
  %340 = load ptr, ptr %335, align 8
  %341 = load ptr, ptr %336, align 8
  store ptr %340, ptr %341, align 8
  %342 = load ptr, ptr %64, align 8
  store ptr %335, ptr %64, align 8
  store ptr %63, ptr %335, align 8
  store ptr %342, ptr %336, align 8
  store ptr %335, ptr %342, align 8
  br label %343

343:                                              ; preds = %322, %273, %329, %334
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %13) #13
  br label %450

344:                                              ; preds = %260
  %345 = load i64, ptr %66, align 8
  %346 = add i64 %345, 1
  store i64 %346, ptr %66, align 8
  store i8 2, ptr %143, align 4
  %347 = load ptr, ptr %67, align 8
  %348 = icmp eq ptr %347, %67
  br i1 %348, label %349, label %383

349:                                              ; preds = %344
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %11) #13
  store i64 %70, ptr %11, align 16
  store i64 %72, ptr %71, align 8
  store i64 %74, ptr %73, align 16
  %350 = call i64 @policy_gpu_evict_prepare(ptr noundef nonnull %11) #14
  %351 = load ptr, ptr %69, align 8
  %352 = icmp eq ptr %351, %69
  %353 = select i1 %352, ptr %68, ptr %69
  %354 = load ptr, ptr %353, align 8
  %355 = getelementptr inbounds i8, ptr %354, i64 16
  %356 = load ptr, ptr %355, align 8
  %357 = load ptr, ptr %23, align 8
  %358 = ptrtoint ptr %356 to i64
  %359 = ptrtoint ptr %357 to i64
  %360 = sub i64 %358, %359
  %361 = sdiv exact i64 %360, 96
  %362 = trunc i64 %361 to i32
  store i32 %362, ptr %140, align 4
  %363 = getelementptr inbounds i8, ptr %356, i64 32
  br label %364

364:                                              ; preds = %349, %364
  %365 = phi i64 [ 0, %349 ], [ %372, %364 ]
  %366 = phi i32 [ 0, %349 ], [ %371, %364 ]
  %367 = getelementptr inbounds [8 x i64], ptr %363, i64 0, i64 %365
  %368 = load i64, ptr %367, align 8
  %369 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %368)
  %370 = trunc nuw nsw i64 %369 to i32
  %371 = add i32 %366, %370
  %372 = add nuw nsw i64 %365, 1
  %373 = icmp eq i64 %372, 8
  br i1 %373, label %374, label %364

374:                                              ; preds = %364
  %375 = trunc i32 %371 to i16
  store i16 %375, ptr %142, align 2
  %376 = load i64, ptr %75, align 8
  %377 = add i64 %376, 1
  store i64 %377, ptr %75, align 8
  %378 = load i16, ptr %142, align 2
  %379 = zext i16 %378 to i64
  %380 = load i64, ptr %76, align 8
  %381 = add i64 %380, %379
  store i64 %381, ptr %76, align 8
  %382 = getelementptr inbounds i8, ptr %356, i64 24
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(72) %382, i8 0, i64 72, i1 false)
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %11) #13
  br label %383

383:                                              ; preds = %344, %374
  %384 = phi ptr [ %354, %374 ], [ %347, %344 ]
  %385 = getelementptr inbounds i8, ptr %384, i64 -16
  %386 = getelementptr inbounds i8, ptr %384, i64 16
  store ptr %155, ptr %386, align 8
  store ptr %385, ptr %261, align 8
  %387 = getelementptr inbounds i8, ptr %384, i64 8
  %388 = load ptr, ptr %387, align 8
  %389 = load ptr, ptr %384, align 8
  %390 = getelementptr inbounds i8, ptr %389, i64 8
  store ptr %388, ptr %390, align 8
  %391 = load ptr, ptr %384, align 8
  %392 = load ptr, ptr %387, align 8
  store ptr %391, ptr %392, align 8
  %393 = load ptr, ptr %78, align 8
  store ptr %384, ptr %78, align 8
  store ptr %77, ptr %384, align 8
  store ptr %393, ptr %387, align 8
  store ptr %384, ptr %393, align 8
  %394 = getelementptr inbounds i8, ptr %384, i64 32
  %395 = load i32, ptr %394, align 8
  %396 = icmp ne i32 %395, 1
  %397 = zext i1 %396 to i64
  %398 = getelementptr inbounds i8, ptr %384, i64 24
  %399 = load i64, ptr %398, align 8
  %400 = add i64 %399, %397
  store i64 %400, ptr %398, align 8
  store i32 1, ptr %394, align 8
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %10) #13
  store i64 %79, ptr %10, align 16
  %401 = ptrtoint ptr %385 to i64
  store i64 %401, ptr %80, align 8
  call void @llvm.lifetime.start.p0(i64 28, ptr nonnull %8)
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(24) %136, i8 0, i64 24, i1 false)
  store ptr %67, ptr %82, align 8
  store ptr %385, ptr %83, align 8
  store i64 %79, ptr %84, align 8
  store i64 %401, ptr %85, align 8
  store i64 %400, ptr %86, align 8
  store i32 1, ptr %87, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(28) %88, ptr noundef nonnull align 4 dereferenceable(28) %8, i64 28, i1 false)
  call void @llvm.lifetime.end.p0(i64 28, ptr nonnull %8)
  store i64 %89, ptr %81, align 16
  %402 = call i64 @policy_gpu_block_activate(ptr noundef nonnull %10) #14
  %403 = load i64, ptr %91, align 8
  %404 = icmp eq i64 %403, 1
  %405 = load i64, ptr %92, align 8
  %406 = select i1 %404, ptr %77, ptr %93
  %407 = load i8, ptr %90, align 8
  %408 = icmp eq i8 %407, 0
  br i1 %408, label %449, label %409

409:                                              ; preds = %383
  %410 = load i8, ptr %94, align 1
  %411 = icmp eq i8 %410, 0
  %412 = add i64 %403, -1
  %413 = icmp ult i64 %412, 2
  %414 = select i1 %411, i1 %413, i1 false
  br i1 %414, label %415, label %416

415:                                              ; preds = %409
  switch i64 %405, label %416 [
    i64 1, label %423
    i64 2, label %431
  ]

416:                                              ; preds = %415, %409
  %417 = load i64, ptr %95, align 8
  %418 = add i64 %417, 1
  store i64 %418, ptr %95, align 8
  %419 = load i8, ptr %144, align 1
  %420 = icmp ne i8 %419, -1
  %421 = zext i1 %420 to i8
  %422 = add i8 %419, %421
  store i8 %422, ptr %144, align 1
  br label %449

423:                                              ; preds = %415
  %424 = load ptr, ptr %387, align 8
  %425 = load ptr, ptr %384, align 8
  %426 = getelementptr inbounds i8, ptr %425, i64 8
  store ptr %424, ptr %426, align 8
  %427 = load ptr, ptr %384, align 8
  %428 = load ptr, ptr %387, align 8
  store ptr %427, ptr %428, align 8
  %429 = load ptr, ptr %406, align 8
  %430 = getelementptr inbounds i8, ptr %429, i64 8
  br label %439

431:                                              ; preds = %415
  %432 = load ptr, ptr %387, align 8
  %433 = load ptr, ptr %384, align 8
  %434 = getelementptr inbounds i8, ptr %433, i64 8
  store ptr %432, ptr %434, align 8
  %435 = load ptr, ptr %384, align 8
  %436 = load ptr, ptr %387, align 8
  store ptr %435, ptr %436, align 8
  %437 = getelementptr inbounds i8, ptr %406, i64 8
  %438 = load ptr, ptr %437, align 8
  br label %439

439:                                              ; preds = %431, %423
  %440 = phi ptr [ %437, %431 ], [ %430, %423 ]
  %441 = phi ptr [ %406, %431 ], [ %429, %423 ]
  %442 = phi ptr [ %438, %431 ], [ %406, %423 ]
  store ptr %384, ptr %440, align 8
  store ptr %441, ptr %384, align 8
  store ptr %442, ptr %387, align 8
  store ptr %384, ptr %442, align 8
  %443 = select i1 %404, i32 1, i32 2
  %444 = load i32, ptr %394, align 8
  %445 = icmp ne i32 %444, %443
  %446 = zext i1 %445 to i64
  %447 = load i64, ptr %398, align 8
  %448 = add i64 %447, %446
  store i64 %448, ptr %398, align 8
  store i32 %443, ptr %394, align 8
  br label %449

449:                                              ; preds = %383, %416, %439
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %10) #13
  br label %450

450:                                              ; preds = %449, %343
  %451 = and i64 %152, 63
  %452 = xor i64 %451, 63
  %453 = lshr i64 -1, %452
  br label %454

454:                                              ; preds = %450, %454
  %455 = phi i32 [ 0, %450 ], [ %472, %454 ]
  %456 = phi i32 [ %157, %450 ], [ %474, %454 ]
  %457 = or i32 %456, 63
  %458 = icmp ugt i32 %457, %157
  %459 = and i32 %456, 63
  %460 = zext nneg i32 %459 to i64
  %461 = shl nsw i64 -1, %460
  %462 = select i1 %458, i64 %453, i64 -1
  %463 = and i64 %461, %462
  %464 = lshr i32 %456, 6
  %465 = zext nneg i32 %464 to i64
  %466 = getelementptr inbounds [8 x i64], ptr %158, i64 0, i64 %465
  %467 = load i64, ptr %466, align 8
  %468 = xor i64 %467, -1
  %469 = and i64 %463, %468
  %470 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %469)
  %471 = trunc nuw nsw i64 %470 to i32
  %472 = add i32 %455, %471
  %473 = or i64 %467, %463
  store i64 %473, ptr %466, align 8
  %474 = add nuw nsw i32 %457, 1
  %475 = icmp ult i32 %457, %157
  br i1 %475, label %454, label %476

476:                                              ; preds = %454
  %477 = load i16, ptr %141, align 4
  %478 = trunc i32 %472 to i16
  %479 = add i16 %477, %478
  store i16 %479, ptr %141, align 4
  %480 = zext i32 %472 to i64
  %481 = load i64, ptr %96, align 8
  %482 = add i64 %481, %480
  store i64 %482, ptr %96, align 8
  call void @llvm.lifetime.start.p0(i64 32, ptr nonnull %9) #13
  %483 = and i64 %152, 511
  store i64 %483, ptr %9, align 16
  store i64 %99, ptr %97, align 8
  store i64 %102, ptr %100, align 16
  store i64 %105, ptr %103, align 8
  %484 = ptrtoint ptr %155 to i64
  store i64 %484, ptr %106, align 8
  store i64 1, ptr %107, align 8
  store i64 %483, ptr %108, align 8
  store i64 %99, ptr %109, align 8
  %485 = call i64 @policy_uvm_perf_prefetch_get_hint_va_block(ptr noundef nonnull %110) #14
  call void @llvm.memmove.p0.p0.i64(ptr noundef nonnull align 8 dereferenceable(64) %98, ptr noundef nonnull align 8 dereferenceable(64) %158, i64 64, i1 false)
  store i16 0, ptr %111, align 8
  store i16 512, ptr %112, align 2
  store i8 10, ptr %113, align 4
  store i16 0, ptr %101, align 8
  store i16 512, ptr %114, align 2
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(24) %104, i8 0, i64 24, i1 false)
  %486 = call i64 @policy_gpu_page_prefetch(ptr noundef nonnull %9) #14
  %487 = trunc i64 %486 to i32
  switch i32 %487, label %610 [
    i32 0, label %617
    i32 2, label %488
    i32 1, label %581
  ]

488:                                              ; preds = %476, %571
  %489 = phi i16 [ %573, %571 ], [ 0, %476 ]
  %490 = phi i16 [ %572, %571 ], [ 0, %476 ]
  %491 = phi i32 [ %574, %571 ], [ %487, %476 ]
  %492 = sub nsw i32 0, %491
  %493 = and i32 %157, %492
  %494 = icmp ult i32 %491, 64
  %495 = lshr i32 %493, 6
  br i1 %494, label %496, label %509

496:                                              ; preds = %488
  %497 = zext nneg i32 %495 to i64
  %498 = getelementptr inbounds [8 x i64], ptr %98, i64 0, i64 %497
  %499 = load i64, ptr %498, align 8
  %500 = and i32 %493, 62
  %501 = zext nneg i32 %500 to i64
  %502 = lshr i64 %499, %501
  %503 = zext nneg i32 %491 to i64
  %504 = shl nsw i64 -1, %503
  %505 = xor i64 %504, -1
  %506 = and i64 %502, %505
  %507 = call range(i64 0, 64) i64 @llvm.ctpop.i64(i64 %506)
  %508 = trunc nuw nsw i64 %507 to i32
  br label %529

509:                                              ; preds = %488
  %510 = add nuw nsw i32 %493, %491
  %511 = lshr i32 %510, 6
  %512 = icmp ult i32 %495, %511
  br i1 %512, label %513, label %529

513:                                              ; preds = %509
  %514 = lshr i32 %493, 6
  %515 = zext nneg i32 %514 to i64
  %516 = add nuw nsw i32 %511, %514
  %517 = sub nsw i32 %516, %495
  %518 = zext i32 %517 to i64
  br label %519

519:                                              ; preds = %513, %519
  %520 = phi i64 [ %515, %513 ], [ %527, %519 ]
  %521 = phi i32 [ 0, %513 ], [ %526, %519 ]
  %522 = getelementptr inbounds [8 x i64], ptr %98, i64 0, i64 %520
  %523 = load i64, ptr %522, align 8
  %524 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %523)
  %525 = trunc nuw nsw i64 %524 to i32
  %526 = add i32 %521, %525
  %527 = add nuw nsw i64 %520, 1
  %528 = icmp eq i64 %527, %518
  br i1 %528, label %529, label %519

529:                                              ; preds = %519, %509, %496
  %530 = phi i32 [ %508, %496 ], [ 0, %509 ], [ %526, %519 ]
  %531 = trunc nuw nsw i32 %493 to i16
  %532 = add nuw nsw i32 %493, %491
  %533 = trunc nuw i32 %532 to i16
  store i16 %531, ptr %120, align 4
  store i16 %533, ptr %121, align 2
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(24) %104, i8 0, i64 24, i1 false)
  call void @llvm.lifetime.start.p0(i64 40, ptr nonnull %5) #13
  store i64 %99, ptr %5, align 16
  store i64 %102, ptr %122, align 8
  store i64 %124, ptr %123, align 16
  %534 = zext i32 %530 to i64
  store i64 %534, ptr %125, align 8
  store i64 %105, ptr %126, align 16
  %535 = call i64 @policy_gpu_page_prefetch_iter(ptr noundef nonnull %5) #14
  %536 = and i64 %535, 4294967295
  %537 = icmp eq i64 %536, 1
  br i1 %537, label %538, label %571

538:                                              ; preds = %529
  %539 = load i64, ptr %127, align 8
  %540 = icmp eq i64 %539, 0
  br i1 %540, label %541, label %544

541:                                              ; preds = %538
  %542 = load i64, ptr %128, align 8
  %543 = icmp eq i64 %542, 0
  br label %544

544:                                              ; preds = %541, %538
  %545 = phi i1 [ false, %538 ], [ %543, %541 ]
  %546 = load i8, ptr %104, align 8
  %547 = icmp eq i8 %546, 0
  br i1 %547, label %564, label %548

548:                                              ; preds = %544
  %549 = load i8, ptr %129, align 1
  %550 = icmp ne i8 %549, 0
  %551 = select i1 %550, i1 true, i1 %545
  %552 = xor i1 %550, true
  br i1 %551, label %558, label %553

553:                                              ; preds = %548
  %554 = load i64, ptr %130, align 8
  %555 = icmp ult i64 %539, %554
  %556 = icmp ult i64 %554, 513
  %557 = and i1 %555, %556
  br label %558

558:                                              ; preds = %548, %553
  %559 = phi i1 [ %552, %548 ], [ %557, %553 ]
  br i1 %559, label %560, label %564

560:                                              ; preds = %558
  %561 = load i64, ptr %131, align 8
  %562 = trunc i64 %561 to i16
  %563 = trunc i64 %539 to i16
  br label %571

564:                                              ; preds = %544, %558
  %565 = load i64, ptr %132, align 8
  %566 = add i64 %565, 1
  store i64 %566, ptr %132, align 8
  %567 = load i8, ptr %144, align 1
  %568 = icmp ne i8 %567, -1
  %569 = zext i1 %568 to i8
  %570 = add i8 %567, %569
  store i8 %570, ptr %144, align 1
  br label %571

571:                                              ; preds = %564, %560, %529
  %572 = phi i16 [ %490, %529 ], [ %562, %560 ], [ %490, %564 ]
  %573 = phi i16 [ %489, %529 ], [ %563, %560 ], [ %489, %564 ]
  call void @llvm.lifetime.end.p0(i64 40, ptr nonnull %5) #13
  %574 = shl nuw nsw i32 %491, 1
  %575 = icmp ult i32 %491, 257
  br i1 %575, label %488, label %576

576:                                              ; preds = %571
  %577 = zext i16 %572 to i32
  %578 = shl nuw i32 %577, 16
  %579 = zext i16 %573 to i32
  %580 = or disjoint i32 %578, %579
  br label %676

581:                                              ; preds = %476
  %582 = load i64, ptr %115, align 8
  %583 = icmp eq i64 %582, 0
  br i1 %583, label %584, label %587

584:                                              ; preds = %581
  %585 = load i64, ptr %116, align 8
  %586 = icmp eq i64 %585, 0
  br label %587

587:                                              ; preds = %584, %581
  %588 = phi i1 [ false, %581 ], [ %586, %584 ]
  %589 = load i8, ptr %104, align 8
  %590 = icmp eq i8 %589, 0
  br i1 %590, label %610, label %591

591:                                              ; preds = %587
  %592 = load i8, ptr %117, align 1
  %593 = icmp ne i8 %592, 0
  %594 = select i1 %593, i1 true, i1 %588
  %595 = xor i1 %593, true
  br i1 %594, label %601, label %596

596:                                              ; preds = %591
  %597 = load i64, ptr %118, align 8
  %598 = icmp ult i64 %582, %597
  %599 = icmp ult i64 %597, 513
  %600 = and i1 %598, %599
  br label %601

601:                                              ; preds = %591, %596
  %602 = phi i1 [ %595, %591 ], [ %600, %596 ]
  br i1 %602, label %603, label %610

603:                                              ; preds = %601
  %604 = trunc i64 %582 to i32
  %605 = load i64, ptr %119, align 8
  %606 = trunc i64 %605 to i32
  %607 = shl i32 %606, 16
  %608 = and i32 %604, 65535
  %609 = or disjoint i32 %607, %608
  br label %676

610:                                              ; preds = %587, %601, %476
  %611 = load i64, ptr %133, align 8
  %612 = add i64 %611, 1
  store i64 %612, ptr %133, align 8
  %613 = load i8, ptr %144, align 1
  %614 = icmp ne i8 %613, -1
  %615 = zext i1 %614 to i8
  %616 = add i8 %613, %615
  store i8 %616, ptr %144, align 1
  br label %617

617:                                              ; preds = %610, %476
  br label %618

618:                                              ; preds = %617, %659
  %619 = phi i16 [ %668, %659 ], [ 0, %617 ]
  %620 = phi i16 [ %667, %659 ], [ 0, %617 ]
  %621 = phi i32 [ %669, %659 ], [ 2, %617 ]
  %622 = sub nsw i32 0, %621
  %623 = and i32 %157, %622
  %624 = icmp ult i32 %621, 64
  %625 = lshr i32 %623, 6
  br i1 %624, label %626, label %639

626:                                              ; preds = %618
  %627 = zext nneg i32 %625 to i64
  %628 = getelementptr inbounds [8 x i64], ptr %98, i64 0, i64 %627
  %629 = load i64, ptr %628, align 8
  %630 = and i32 %623, 62
  %631 = zext nneg i32 %630 to i64
  %632 = lshr i64 %629, %631
  %633 = zext nneg i32 %621 to i64
  %634 = shl nsw i64 -1, %633
  %635 = xor i64 %634, -1
  %636 = and i64 %632, %635
  %637 = call range(i64 0, 64) i64 @llvm.ctpop.i64(i64 %636)
  %638 = trunc nuw nsw i64 %637 to i32
  br label %659

639:                                              ; preds = %618
  %640 = add nuw nsw i32 %623, %621
  %641 = lshr i32 %640, 6
  %642 = icmp ult i32 %625, %641
  br i1 %642, label %643, label %659

643:                                              ; preds = %639
  %644 = lshr i32 %623, 6
  %645 = zext nneg i32 %644 to i64
  %646 = add nuw nsw i32 %641, %644
  %647 = sub nsw i32 %646, %625
  %648 = zext i32 %647 to i64
  br label %649

649:                                              ; preds = %643, %649
  %650 = phi i64 [ %645, %643 ], [ %657, %649 ]
  %651 = phi i32 [ 0, %643 ], [ %656, %649 ]
  %652 = getelementptr inbounds [8 x i64], ptr %98, i64 0, i64 %650
  %653 = load i64, ptr %652, align 8
  %654 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %653)
  %655 = trunc nuw nsw i64 %654 to i32
  %656 = add i32 %651, %655
  %657 = add nuw nsw i64 %650, 1
  %658 = icmp eq i64 %657, %648
  br i1 %658, label %659, label %649

659:                                              ; preds = %649, %639, %626
  %660 = phi i32 [ %638, %626 ], [ 0, %639 ], [ %656, %649 ]
  %661 = trunc nuw nsw i32 %623 to i16
  %662 = add nuw nsw i32 %623, %621
  %663 = trunc nuw i32 %662 to i16
  %664 = mul i32 %660, 100
  %665 = mul nuw nsw i32 %621, 51
  %666 = icmp ugt i32 %664, %665
  %667 = select i1 %666, i16 %663, i16 %620
  %668 = select i1 %666, i16 %661, i16 %619
  %669 = shl nuw nsw i32 %621, 1
  %670 = icmp ult i32 %621, 257
  br i1 %670, label %618, label %671

671:                                              ; preds = %659
  %672 = zext i16 %667 to i32
  %673 = shl nuw i32 %672, 16
  %674 = zext nneg i16 %668 to i32
  %675 = or disjoint i32 %673, %674
  br label %676

676:                                              ; preds = %576, %603, %671
  %677 = phi i32 [ %675, %671 ], [ %609, %603 ], [ %580, %576 ]
  call void @llvm.lifetime.end.p0(i64 32, ptr nonnull %9) #13
  %678 = lshr i32 %677, 16
  %679 = and i32 %677, 65535
  %680 = icmp ult i32 %679, %678
  br i1 %680, label %681, label %709

681:                                              ; preds = %676
  %682 = add nuw nsw i32 %678, 63
  %683 = and i32 %682, 63
  %684 = xor i32 %683, 63
  br label %685

685:                                              ; preds = %681, %685
  %686 = phi i32 [ 0, %681 ], [ %705, %685 ]
  %687 = phi i32 [ %679, %681 ], [ %707, %685 ]
  %688 = or i32 %687, 63
  %689 = icmp ult i32 %688, %678
  %690 = and i32 %687, 63
  %691 = zext nneg i32 %690 to i64
  %692 = shl nsw i64 -1, %691
  %693 = select i1 %689, i32 0, i32 %684
  %694 = zext nneg i32 %693 to i64
  %695 = lshr i64 -1, %694
  %696 = and i64 %695, %692
  %697 = lshr i32 %687, 6
  %698 = zext nneg i32 %697 to i64
  %699 = getelementptr inbounds [8 x i64], ptr %158, i64 0, i64 %698
  %700 = load i64, ptr %699, align 8
  %701 = xor i64 %700, -1
  %702 = and i64 %696, %701
  %703 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %702)
  %704 = trunc nuw nsw i64 %703 to i32
  %705 = add i32 %686, %704
  %706 = or i64 %700, %696
  store i64 %706, ptr %699, align 8
  %707 = add nuw nsw i32 %688, 1
  %708 = icmp ult i32 %707, %678
  br i1 %708, label %685, label %709

709:                                              ; preds = %685, %676
  %710 = phi i32 [ 0, %676 ], [ %705, %685 ]
  %711 = load i16, ptr %141, align 4
  %712 = trunc i32 %710 to i16
  %713 = add i16 %711, %712
  store i16 %713, ptr %141, align 4
  %714 = zext i32 %710 to i64
  %715 = load i64, ptr %96, align 8
  %716 = add i64 %715, %714
  store i64 %716, ptr %96, align 8
  br label %717

717:                                              ; preds = %167, %251, %709
  %718 = add nuw i64 %139, 1
  %719 = icmp eq i64 %718, %2
  br i1 %719, label %137, label %138
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias nocapture writeonly, ptr noalias nocapture readonly, i64, i1 immarg) #8

define dso_local void @model_task(i64 noundef %0, i64 noundef %1, i64 noundef %2, ptr nocapture noundef %3) local_unnamed_addr #7 {
  %5 = alloca [1 x i64], align 8
  %6 = alloca [1 x i64], align 8
  %7 = load i64, ptr @accel_arena, align 8
  %8 = inttoptr i64 %7 to ptr
  %9 = getelementptr inbounds i8, ptr %8, i64 104
  %10 = load ptr, ptr %9, align 8
  %11 = getelementptr inbounds %struct.tenant, ptr %10, i64 %0
  %12 = getelementptr inbounds i8, ptr %8, i64 112
  store ptr %11, ptr %12, align 8
  %13 = getelementptr inbounds i8, ptr %8, i64 352
  %14 = trunc i64 %2 to i32
  store i64 %0, ptr %13, align 8
  %15 = getelementptr inbounds i8, ptr %8, i64 360
  store i64 0, ptr %15, align 8
  %16 = getelementptr inbounds i8, ptr %8, i64 368
  store i64 %1, ptr %16, align 8
  %17 = getelementptr inbounds i8, ptr %8, i64 376
  store i32 %14, ptr %17, align 8
  %18 = getelementptr inbounds i8, ptr %8, i64 380
  tail call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(52) %18, i8 0, i64 52, i1 false)
  %19 = ptrtoint ptr %13 to i64
  store i64 %19, ptr %5, align 8
  %20 = call i64 @policy_on_task_init(ptr noundef nonnull %5) #14
  %21 = getelementptr inbounds i8, ptr %3, i64 24
  store i64 0, ptr %21, align 8
  %22 = getelementptr inbounds i8, ptr %8, i64 384
  %23 = load i64, ptr %22, align 8
  %24 = icmp eq i64 %23, 0
  br i1 %24, label %35, label %25

25:                                               ; preds = %4
  %26 = getelementptr inbounds i8, ptr %8, i64 392
  %27 = load i64, ptr %26, align 8
  %28 = icmp eq i64 %27, 0
  br i1 %28, label %29, label %34

29:                                               ; preds = %25
  %30 = getelementptr inbounds i8, ptr %8, i64 400
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
  %37 = getelementptr inbounds i8, ptr %8, i64 408
  %38 = load i64, ptr %37, align 8
  %39 = icmp eq i64 %38, 0
  br i1 %39, label %51, label %40

40:                                               ; preds = %35
  %41 = getelementptr inbounds i8, ptr %8, i64 416
  %42 = load i64, ptr %41, align 8
  %43 = icmp eq i64 %42, 0
  br i1 %43, label %44, label %48

44:                                               ; preds = %40
  %45 = getelementptr inbounds i8, ptr %8, i64 424
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
  %54 = getelementptr inbounds i8, ptr %8, i64 432
  %55 = trunc i64 %52 to i32
  store i64 %0, ptr %54, align 8
  %56 = getelementptr inbounds i8, ptr %8, i64 440
  store i32 0, ptr %56, align 8
  %57 = getelementptr inbounds i8, ptr %8, i64 444
  store i32 1, ptr %57, align 4
  %58 = getelementptr inbounds i8, ptr %8, i64 448
  store i64 %36, ptr %58, align 8
  %59 = getelementptr inbounds i8, ptr %8, i64 456
  store i32 %55, ptr %59, align 8
  %60 = getelementptr inbounds i8, ptr %8, i64 460
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

declare i64 @policy_on_task_init(ptr noundef) local_unnamed_addr #10

declare i64 @policy_on_bind(ptr noundef) local_unnamed_addr #10

define dso_local void @model_control(i64 noundef %0, i64 noundef %1, i64 noundef %2, ptr nocapture noundef %3) local_unnamed_addr #7 {
  %5 = alloca [1 x i64], align 8
  store i64 %1, ptr %3, align 8
  %6 = getelementptr inbounds i8, ptr %3, i64 8
  store i64 0, ptr %6, align 8
  %7 = icmp ugt i64 %1, 1000000
  br i1 %7, label %47, label %8

8:                                                ; preds = %4
  %9 = load i64, ptr @accel_arena, align 8
  %10 = inttoptr i64 %9 to ptr
  %11 = getelementptr inbounds i8, ptr %10, i64 104
  %12 = load ptr, ptr %11, align 8
  %13 = getelementptr inbounds %struct.tenant, ptr %12, i64 %0
  %14 = getelementptr inbounds i8, ptr %10, i64 112
  store ptr %13, ptr %14, align 8
  %15 = getelementptr inbounds i8, ptr %10, i64 480
  %16 = trunc i64 %0 to i32
  %17 = add i32 %16, 1
  store i64 %0, ptr %15, align 8
  %18 = getelementptr inbounds i8, ptr %10, i64 488
  store i64 %1, ptr %18, align 8
  %19 = getelementptr inbounds i8, ptr %10, i64 496
  store i32 0, ptr %19, align 8
  %20 = getelementptr inbounds i8, ptr %10, i64 500
  store i32 0, ptr %20, align 4
  %21 = getelementptr inbounds i8, ptr %10, i64 504
  store i32 %17, ptr %21, align 8
  %22 = getelementptr inbounds i8, ptr %10, i64 508
  store i32 %17, ptr %22, align 4
  %23 = getelementptr inbounds i8, ptr %10, i64 512
  store i32 0, ptr %23, align 8
  %24 = getelementptr inbounds i8, ptr %10, i64 516
  store i32 1, ptr %24, align 4
  %25 = getelementptr inbounds i8, ptr %10, i64 520
  tail call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(24) %25, i8 0, i64 24, i1 false)
  %26 = ptrtoint ptr %15 to i64
  store i64 %26, ptr %5, align 8
  %27 = call i64 @policy_on_timeslice_control(ptr noundef nonnull %5) #14
  %28 = load i64, ptr %25, align 8
  %29 = icmp eq i64 %28, 0
  br i1 %29, label %42, label %30

30:                                               ; preds = %8
  %31 = getelementptr inbounds i8, ptr %10, i64 528
  %32 = load i64, ptr %31, align 8
  %33 = icmp eq i64 %32, 0
  br i1 %33, label %34, label %39

34:                                               ; preds = %30
  %35 = getelementptr inbounds i8, ptr %10, i64 536
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

declare i64 @policy_on_timeslice_control(ptr noundef) local_unnamed_addr #10

define dso_local void @model_launch(i64 noundef %0, i64 noundef %1, i64 noundef %2, ptr nocapture noundef writeonly %3) local_unnamed_addr #7 {
  %5 = load i64, ptr @accel_arena, align 8
  %6 = inttoptr i64 %5 to ptr
  %7 = getelementptr inbounds i8, ptr %6, i64 104
  %8 = load ptr, ptr %7, align 8
  %9 = getelementptr inbounds %struct.tenant, ptr %8, i64 %0
  %10 = getelementptr inbounds i8, ptr %6, i64 112
  store ptr %9, ptr %10, align 8
  %11 = getelementptr inbounds i8, ptr %6, i64 544
  br label %15

12:                                               ; preds = %15
  %13 = icmp eq i64 %1, 0
  %14 = getelementptr inbounds i8, ptr %6, i64 576
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
  %25 = getelementptr inbounds i8, ptr %6, i64 544
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

declare i64 @policy_launched(ptr noundef) local_unnamed_addr #10

declare i64 @policy_launch(ptr noundef) local_unnamed_addr #10

define dso_local void @model_task_end(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3) local_unnamed_addr #7 {
  %5 = alloca [1 x i64], align 8
  %6 = load i64, ptr @accel_arena, align 8
  %7 = inttoptr i64 %6 to ptr
  %8 = getelementptr inbounds i8, ptr %7, i64 104
  %9 = load ptr, ptr %8, align 8
  %10 = getelementptr inbounds %struct.tenant, ptr %9, i64 %0
  %11 = getelementptr inbounds i8, ptr %7, i64 112
  store ptr %10, ptr %11, align 8
  %12 = getelementptr inbounds i8, ptr %7, i64 464
  store i64 %0, ptr %12, align 8
  %13 = ptrtoint ptr %12 to i64
  store i64 %13, ptr %5, align 8
  %14 = call i64 @policy_on_task_destroy(ptr noundef nonnull %5) #14
  ret void
}

declare i64 @policy_on_task_destroy(ptr noundef) local_unnamed_addr #10

declare i64 @policy_gpu_block_access(ptr noundef) local_unnamed_addr #10

declare i64 @policy_gpu_evict_prepare(ptr noundef) local_unnamed_addr #10

declare i64 @llvm.ctpop.i64(i64) #11

declare i64 @policy_gpu_block_activate(ptr noundef) local_unnamed_addr #10

declare i64 @policy_uvm_perf_prefetch_get_hint_va_block(ptr noundef) local_unnamed_addr #10

declare i64 @policy_gpu_page_prefetch(ptr noundef) local_unnamed_addr #10

declare i64 @policy_gpu_page_prefetch_iter(ptr noundef) local_unnamed_addr #10

declare void @llvm.memmove.p0.p0.i64(ptr nocapture writeonly, ptr nocapture readonly, i64, i1 immarg) #12

attributes #0 = { mustprogress nofree norecurse nosync nounwind willreturn memory(none) "no-builtins" }
attributes #1 = { mustprogress nofree norecurse nosync nounwind willreturn memory(readwrite, inaccessiblemem: none) "no-builtins" }
attributes #2 = { mustprogress nocallback nofree nosync nounwind willreturn memory(argmem: readwrite) }
attributes #3 = { nofree norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) "no-builtins" }
attributes #4 = { nofree noinline norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) "no-builtins" }
attributes #5 = { mustprogress nocallback nofree nosync nounwind willreturn memory(none) }
attributes #6 = { mustprogress nofree norecurse nosync nounwind willreturn memory(write, inaccessiblemem: none) "no-builtins" }
attributes #7 = { nounwind "no-builtins" }
attributes #8 = { mustprogress nocallback nofree nounwind willreturn memory(argmem: readwrite) }
attributes #9 = { mustprogress nocallback nofree nounwind willreturn memory(argmem: write) }
attributes #10 = { "no-builtins" }
attributes #11 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #12 = { nocallback nofree nounwind willreturn memory(argmem: readwrite) }
attributes #13 = { nounwind }
attributes #14 = { nobuiltin nounwind "no-builtins" }
