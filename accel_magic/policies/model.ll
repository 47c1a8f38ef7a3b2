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
  %14 = icmp eq i64 %2, 0
  br i1 %14, label %129, label %15

15:                                               ; preds = %4
  %16 = load i64, ptr @accel_arena, align 8
  %17 = inttoptr i64 %16 to ptr
  %18 = getelementptr inbounds i8, ptr %17, i64 80
  %19 = getelementptr inbounds i8, ptr %17, i64 104
  %20 = getelementptr inbounds i8, ptr %17, i64 112
  %21 = getelementptr inbounds i8, ptr %17, i64 96
  %22 = getelementptr inbounds i8, ptr %17, i64 32
  %23 = getelementptr inbounds i8, ptr %17, i64 24
  %24 = getelementptr inbounds i8, ptr %17, i64 128
  %25 = ptrtoint ptr %24 to i64
  %26 = getelementptr inbounds i8, ptr %12, i64 8
  %27 = getelementptr inbounds i8, ptr %12, i64 16
  %28 = getelementptr inbounds i8, ptr %17, i64 280
  %29 = getelementptr inbounds i8, ptr %17, i64 288
  %30 = getelementptr inbounds i8, ptr %17, i64 296
  %31 = getelementptr inbounds i8, ptr %17, i64 304
  %32 = getelementptr inbounds i8, ptr %17, i64 312
  %33 = getelementptr inbounds i8, ptr %17, i64 320
  %34 = getelementptr inbounds i8, ptr %17, i64 324
  %35 = ptrtoint ptr %28 to i64
  %36 = getelementptr inbounds i8, ptr %17, i64 328
  %37 = getelementptr inbounds i8, ptr %17, i64 336
  %38 = getelementptr inbounds i8, ptr %17, i64 344
  %39 = getelementptr inbounds i8, ptr %17, i64 329
  %40 = getelementptr inbounds i8, ptr %17, i64 144
  %41 = getelementptr inbounds i8, ptr %17, i64 152
  %42 = getelementptr inbounds i8, ptr %17, i64 40
  %43 = getelementptr inbounds i8, ptr %17, i64 128
  %44 = ptrtoint ptr %43 to i64
  %45 = getelementptr inbounds i8, ptr %13, i64 8
  %46 = getelementptr inbounds i8, ptr %13, i64 16
  %47 = getelementptr inbounds i8, ptr %17, i64 280
  %48 = getelementptr inbounds i8, ptr %17, i64 288
  %49 = getelementptr inbounds i8, ptr %17, i64 296
  %50 = getelementptr inbounds i8, ptr %17, i64 304
  %51 = getelementptr inbounds i8, ptr %17, i64 312
  %52 = getelementptr inbounds i8, ptr %17, i64 320
  %53 = getelementptr inbounds i8, ptr %17, i64 324
  %54 = ptrtoint ptr %47 to i64
  %55 = getelementptr inbounds i8, ptr %17, i64 328
  %56 = getelementptr inbounds i8, ptr %17, i64 336
  %57 = getelementptr inbounds i8, ptr %17, i64 344
  %58 = getelementptr inbounds i8, ptr %17, i64 329
  %59 = getelementptr inbounds i8, ptr %17, i64 144
  %60 = getelementptr inbounds i8, ptr %17, i64 152
  %61 = getelementptr inbounds i8, ptr %17, i64 48
  %62 = getelementptr inbounds i8, ptr %17, i64 128
  %63 = getelementptr inbounds i8, ptr %17, i64 144
  %64 = getelementptr inbounds i8, ptr %17, i64 160
  %65 = ptrtoint ptr %62 to i64
  %66 = getelementptr inbounds i8, ptr %11, i64 8
  %67 = ptrtoint ptr %63 to i64
  %68 = getelementptr inbounds i8, ptr %11, i64 16
  %69 = ptrtoint ptr %64 to i64
  %70 = getelementptr inbounds i8, ptr %17, i64 56
  %71 = getelementptr inbounds i8, ptr %17, i64 72
  %72 = getelementptr inbounds i8, ptr %17, i64 144
  %73 = getelementptr inbounds i8, ptr %17, i64 152
  %74 = ptrtoint ptr %62 to i64
  %75 = getelementptr inbounds i8, ptr %10, i64 8
  %76 = getelementptr inbounds i8, ptr %10, i64 16
  %77 = getelementptr inbounds i8, ptr %17, i64 280
  %78 = getelementptr inbounds i8, ptr %17, i64 288
  %79 = getelementptr inbounds i8, ptr %17, i64 296
  %80 = getelementptr inbounds i8, ptr %17, i64 304
  %81 = getelementptr inbounds i8, ptr %17, i64 312
  %82 = getelementptr inbounds i8, ptr %17, i64 320
  %83 = getelementptr inbounds i8, ptr %17, i64 324
  %84 = ptrtoint ptr %77 to i64
  %85 = getelementptr inbounds i8, ptr %17, i64 328
  %86 = getelementptr inbounds i8, ptr %17, i64 336
  %87 = getelementptr inbounds i8, ptr %17, i64 344
  %88 = getelementptr inbounds i8, ptr %17, i64 160
  %89 = getelementptr inbounds i8, ptr %17, i64 329
  %90 = getelementptr inbounds i8, ptr %17, i64 64
  %91 = getelementptr inbounds i8, ptr %9, i64 8
  %92 = getelementptr inbounds i8, ptr %17, i64 176
  %93 = ptrtoint ptr %92 to i64
  %94 = getelementptr inbounds i8, ptr %9, i64 16
  %95 = getelementptr inbounds i8, ptr %17, i64 248
  %96 = ptrtoint ptr %95 to i64
  %97 = getelementptr inbounds i8, ptr %9, i64 24
  %98 = getelementptr inbounds i8, ptr %17, i64 256
  %99 = ptrtoint ptr %98 to i64
  %100 = getelementptr inbounds i8, ptr %17, i64 688
  %101 = getelementptr inbounds i8, ptr %17, i64 672
  %102 = getelementptr inbounds i8, ptr %17, i64 648
  %103 = getelementptr inbounds i8, ptr %17, i64 640
  %104 = getelementptr inbounds i8, ptr %17, i64 576
  %105 = getelementptr inbounds i8, ptr %17, i64 240
  %106 = getelementptr inbounds i8, ptr %17, i64 242
  %107 = getelementptr inbounds i8, ptr %17, i64 244
  %108 = getelementptr inbounds i8, ptr %17, i64 250
  %109 = getelementptr inbounds i8, ptr %17, i64 264
  %110 = getelementptr inbounds i8, ptr %17, i64 272
  %111 = getelementptr inbounds i8, ptr %17, i64 257
  %112 = getelementptr inbounds i8, ptr %17, i64 272
  %113 = getelementptr inbounds i8, ptr %17, i64 272
  %114 = getelementptr inbounds i8, ptr %17, i64 252
  %115 = getelementptr inbounds i8, ptr %17, i64 254
  %116 = getelementptr inbounds i8, ptr %5, i64 8
  %117 = getelementptr inbounds i8, ptr %5, i64 16
  %118 = ptrtoint ptr %114 to i64
  %119 = getelementptr inbounds i8, ptr %5, i64 24
  %120 = getelementptr inbounds i8, ptr %5, i64 32
  %121 = getelementptr inbounds i8, ptr %17, i64 264
  %122 = getelementptr inbounds i8, ptr %17, i64 272
  %123 = getelementptr inbounds i8, ptr %17, i64 257
  %124 = getelementptr inbounds i8, ptr %17, i64 272
  %125 = getelementptr inbounds i8, ptr %17, i64 272
  %126 = getelementptr inbounds i8, ptr %7, i64 4
  %127 = getelementptr inbounds i8, ptr %6, i64 4
  %128 = getelementptr inbounds i8, ptr %8, i64 4
  br label %130

129:                                              ; preds = %684, %4
  ret void

130:                                              ; preds = %15, %684
  %131 = phi i64 [ 0, %15 ], [ %689, %684 ]
  %132 = load i64, ptr %18, align 8
  %133 = getelementptr inbounds %struct.access, ptr %3, i64 %131
  store i32 -1, ptr %133, align 4
  %134 = getelementptr inbounds i8, ptr %133, i64 4
  store i16 0, ptr %134, align 4
  %135 = getelementptr inbounds i8, ptr %133, i64 6
  store i16 0, ptr %135, align 2
  %136 = getelementptr inbounds i8, ptr %133, i64 8
  store i8 0, ptr %136, align 4
  %137 = getelementptr inbounds i8, ptr %133, i64 9
  store i8 0, ptr %137, align 1
  %138 = getelementptr inbounds i8, ptr %133, i64 10
  store i16 0, ptr %138, align 2
  %139 = load ptr, ptr %19, align 8
  %140 = getelementptr inbounds i16, ptr %1, i64 %131
  %141 = load i16, ptr %140, align 2
  %142 = zext i16 %141 to i64
  %143 = getelementptr inbounds %struct.tenant, ptr %139, i64 %142
  store ptr %143, ptr %20, align 8
  %144 = getelementptr inbounds i64, ptr %0, i64 %131
  %145 = load i64, ptr %144, align 8
  %146 = load ptr, ptr %21, align 8
  %147 = lshr i64 %145, 9
  %148 = getelementptr inbounds %struct.uvm_va_block_struct, ptr %146, i64 %147
  %149 = trunc i64 %145 to i32
  %150 = and i32 %149, 511
  %151 = load i64, ptr %22, align 8
  %152 = add i64 %151, 1
  store i64 %152, ptr %22, align 8
  %153 = getelementptr inbounds i8, ptr %148, i64 32
  %154 = lshr i32 %150, 6
  %155 = zext nneg i32 %154 to i64
  %156 = getelementptr inbounds [8 x i64], ptr %153, i64 0, i64 %155
  %157 = load i64, ptr %156, align 8
  %158 = and i64 %145, 63
  %159 = shl nuw i64 1, %158
  %160 = and i64 %157, %159
  %161 = icmp eq i64 %160, 0
  br i1 %161, label %239, label %162

162:                                              ; preds = %130
  %163 = load i64, ptr %23, align 8
  %164 = icmp eq i64 %163, 0
  br i1 %164, label %684, label %165

165:                                              ; preds = %162
  %166 = getelementptr inbounds i8, ptr %148, i64 24
  %167 = load ptr, ptr %166, align 8
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %12) #14
  store i64 %25, ptr %12, align 16
  %168 = ptrtoint ptr %167 to i64
  store i64 %168, ptr %26, align 8
  call void @llvm.lifetime.start.p0(i64 28, ptr nonnull %7)
  %169 = getelementptr inbounds i8, ptr %167, i64 40
  %170 = load i64, ptr %169, align 8
  %171 = getelementptr inbounds i8, ptr %167, i64 48
  %172 = load i32, ptr %171, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(24) %126, i8 0, i64 24, i1 false)
  store ptr %24, ptr %28, align 8
  store ptr %167, ptr %29, align 8
  store i64 %25, ptr %30, align 8
  store i64 %168, ptr %31, align 8
  store i64 %170, ptr %32, align 8
  store i32 %172, ptr %33, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(28) %34, ptr noundef nonnull align 4 dereferenceable(28) %7, i64 28, i1 false)
  call void @llvm.lifetime.end.p0(i64 28, ptr nonnull %7)
  store i64 %35, ptr %27, align 16
  %173 = call i64 @policy_gpu_block_access(ptr noundef nonnull %12) #15
  %174 = trunc i64 %173 to i32
  %175 = icmp ugt i32 %174, 1
  br i1 %175, label %176, label %179

176:                                              ; preds = %165
  %177 = load i64, ptr %18, align 8
  %178 = add i64 %177, 1
  store i64 %178, ptr %18, align 8
  br label %238

179:                                              ; preds = %165
  %180 = load i64, ptr %37, align 8
  %181 = icmp eq i64 %180, 1
  %182 = load i64, ptr %38, align 8
  %183 = select i1 %181, i64 144, i64 160
  %184 = getelementptr inbounds i8, ptr %17, i64 %183
  %185 = load i8, ptr %36, align 8
  %186 = icmp eq i8 %185, 0
  br i1 %186, label %224, label %187

187:                                              ; preds = %179
  %188 = load i8, ptr %39, align 1
  %189 = icmp eq i8 %188, 0
  %190 = add i64 %180, -1
  %191 = icmp ult i64 %190, 2
  %192 = select i1 %189, i1 %191, i1 false
  br i1 %192, label %193, label %194

193:                                              ; preds = %187
  switch i64 %182, label %194 [
    i64 1, label %197
    i64 2, label %207
  ]

194:                                              ; preds = %193, %187
  %195 = load i64, ptr %18, align 8
  %196 = add i64 %195, 1
  store i64 %196, ptr %18, align 8
  br label %224

197:                                              ; preds = %193
  %198 = getelementptr inbounds i8, ptr %167, i64 16
  %199 = getelementptr inbounds i8, ptr %167, i64 24
  %200 = load ptr, ptr %199, align 8
  %201 = load ptr, ptr %198, align 8
  %202 = getelementptr inbounds i8, ptr %201, i64 8
  store ptr %200, ptr %202, align 8
  %203 = load ptr, ptr %198, align 8
  %204 = load ptr, ptr %199, align 8
  store ptr %203, ptr %204, align 8
  %205 = load ptr, ptr %184, align 8
  %206 = getelementptr inbounds i8, ptr %205, i64 8
  store ptr %198, ptr %206, align 8
  store ptr %205, ptr %198, align 8
  store ptr %184, ptr %199, align 8
  store ptr %198, ptr %184, align 8
  br label %217

207:                                              ; preds = %193
  %208 = getelementptr inbounds i8, ptr %167, i64 16
  %209 = getelementptr inbounds i8, ptr %167, i64 24
  %210 = load ptr, ptr %209, align 8
  %211 = load ptr, ptr %208, align 8
  %212 = getelementptr inbounds i8, ptr %211, i64 8
  store ptr %210, ptr %212, align 8
  %213 = load ptr, ptr %208, align 8
  %214 = load ptr, ptr %209, align 8
  store ptr %213, ptr %214, align 8
  %215 = getelementptr inbounds i8, ptr %184, i64 8
  %216 = load ptr, ptr %215, align 8
  store ptr %208, ptr %215, align 8
  store ptr %184, ptr %208, align 8
  store ptr %216, ptr %209, align 8
  store ptr %208, ptr %216, align 8
  br label %217

217:                                              ; preds = %207, %197
  %218 = select i1 %181, i32 1, i32 2
  %219 = load i32, ptr %171, align 8
  %220 = icmp ne i32 %219, %218
  %221 = zext i1 %220 to i64
  %222 = load i64, ptr %169, align 8
  %223 = add i64 %222, %221
  store i64 %223, ptr %169, align 8
  store i32 %218, ptr %171, align 8
  br label %238

224:                                              ; preds = %179, %194
  %225 = load i8, ptr %36, align 8
  %226 = icmp eq i8 %225, 0
  %227 = icmp eq i32 %174, 0
  %228 = and i1 %227, %226
  br i1 %228, label %229, label %238

229:                                              ; preds = %224
  %230 = getelementptr inbounds i8, ptr %167, i64 16
  %231 = getelementptr inbounds i8, ptr %167, i64 24
  %232 = load ptr, ptr %231, align 8
  %233 = load ptr, ptr %230, align 8
  %234 = getelementptr inbounds i8, ptr %233, i64 8
  store ptr %232, ptr %234, align 8
  %235 = load ptr, ptr %230, align 8
  %236 = load ptr, ptr %231, align 8
  store ptr %235, ptr %236, align 8
  %237 = load ptr, ptr %41, align 8
  store ptr %230, ptr %41, align 8
  store ptr %40, ptr %230, align 8
  store ptr %237, ptr %231, align 8
  store ptr %230, ptr %237, align 8
  br label %238

238:                                              ; preds = %217, %176, %224, %229
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %12) #14
  br label %684

239:                                              ; preds = %130
  %240 = load i64, ptr %42, align 8
  %241 = add i64 %240, 1
  store i64 %241, ptr %42, align 8
  store i8 1, ptr %136, align 4
  %242 = load ptr, ptr %148, align 8
  %243 = icmp eq ptr %242, null
  br i1 %243, label %244, label %247

244:                                              ; preds = %239
  %245 = load ptr, ptr %20, align 8
  %246 = getelementptr inbounds i8, ptr %245, i64 40
  store ptr %246, ptr %148, align 8
  br label %247

247:                                              ; preds = %244, %239
  %248 = getelementptr inbounds i8, ptr %148, i64 24
  %249 = load ptr, ptr %248, align 8
  %250 = icmp eq ptr %249, null
  br i1 %250, label %323, label %251

251:                                              ; preds = %247
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %13) #14
  store i64 %44, ptr %13, align 16
  %252 = ptrtoint ptr %249 to i64
  store i64 %252, ptr %45, align 8
  call void @llvm.lifetime.start.p0(i64 28, ptr nonnull %6)
  %253 = getelementptr inbounds i8, ptr %249, i64 40
  %254 = load i64, ptr %253, align 8
  %255 = getelementptr inbounds i8, ptr %249, i64 48
  %256 = load i32, ptr %255, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(24) %127, i8 0, i64 24, i1 false)
  store ptr %43, ptr %47, align 8
  store ptr %249, ptr %48, align 8
  store i64 %44, ptr %49, align 8
  store i64 %252, ptr %50, align 8
  store i64 %254, ptr %51, align 8
  store i32 %256, ptr %52, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(28) %53, ptr noundef nonnull align 4 dereferenceable(28) %6, i64 28, i1 false)
  call void @llvm.lifetime.end.p0(i64 28, ptr nonnull %6)
  store i64 %54, ptr %46, align 16
  %257 = call i64 @policy_gpu_block_access(ptr noundef nonnull %13) #15
  %258 = trunc i64 %257 to i32
  %259 = icmp ugt i32 %258, 1
  br i1 %259, label %260, label %263

260:                                              ; preds = %251
  %261 = load i64, ptr %18, align 8
  %262 = add i64 %261, 1
  store i64 %262, ptr %18, align 8
  br label %322

263:                                              ; preds = %251
  %264 = load i64, ptr %56, align 8
  %265 = icmp eq i64 %264, 1
  %266 = load i64, ptr %57, align 8
  %267 = select i1 %265, i64 144, i64 160
  %268 = getelementptr inbounds i8, ptr %17, i64 %267
  %269 = load i8, ptr %55, align 8
  %270 = icmp eq i8 %269, 0
  br i1 %270, label %308, label %271

271:                                              ; preds = %263
  %272 = load i8, ptr %58, align 1
  %273 = icmp eq i8 %272, 0
  %274 = add i64 %264, -1
  %275 = icmp ult i64 %274, 2
  %276 = select i1 %273, i1 %275, i1 false
  br i1 %276, label %277, label %278

277:                                              ; preds = %271
  switch i64 %266, label %278 [
    i64 1, label %281
    i64 2, label %291
  ]

278:                                              ; preds = %277, %271
  %279 = load i64, ptr %18, align 8
  %280 = add i64 %279, 1
  store i64 %280, ptr %18, align 8
  br label %308

281:                                              ; preds = %277
  %282 = getelementptr inbounds i8, ptr %249, i64 16
  %283 = getelementptr inbounds i8, ptr %249, i64 24
  %284 = load ptr, ptr %283, align 8
  %285 = load ptr, ptr %282, align 8
  %286 = getelementptr inbounds i8, ptr %285, i64 8
  store ptr %284, ptr %286, align 8
  %287 = load ptr, ptr %282, align 8
  %288 = load ptr, ptr %283, align 8
  store ptr %287, ptr %288, align 8
  %289 = load ptr, ptr %268, align 8
  %290 = getelementptr inbounds i8, ptr %289, i64 8
  store ptr %282, ptr %290, align 8
  store ptr %289, ptr %282, align 8
  store ptr %268, ptr %283, align 8
  store ptr %282, ptr %268, align 8
  br label %301

291:                                              ; preds = %277
  %292 = getelementptr inbounds i8, ptr %249, i64 16
  %293 = getelementptr inbounds i8, ptr %249, i64 24
  %294 = load ptr, ptr %293, align 8
  %295 = load ptr, ptr %292, align 8
  %296 = getelementptr inbounds i8, ptr %295, i64 8
  store ptr %294, ptr %296, align 8
  %297 = load ptr, ptr %292, align 8
  %298 = load ptr, ptr %293, align 8
  store ptr %297, ptr %298, align 8
  %299 = getelementptr inbounds i8, ptr %268, i64 8
  %300 = load ptr, ptr %299, align 8
  store ptr %292, ptr %299, align 8
  store ptr %268, ptr %292, align 8
  store ptr %300, ptr %293, align 8
  store ptr %292, ptr %300, align 8
  br label %301

301:                                              ; preds = %291, %281
  %302 = select i1 %265, i32 1, i32 2
  %303 = load i32, ptr %255, align 8
  %304 = icmp ne i32 %303, %302
  %305 = zext i1 %304 to i64
  %306 = load i64, ptr %253, align 8
  %307 = add i64 %306, %305
  store i64 %307, ptr %253, align 8
  store i32 %302, ptr %255, align 8
  br label %322

308:                                              ; preds = %263, %278
  %309 = load i8, ptr %55, align 8
  %310 = icmp eq i8 %309, 0
  %311 = icmp eq i32 %258, 0
  %312 = and i1 %311, %310
  br i1 %312, label %313, label %322

313:                                              ; preds = %308
  %314 = getelementptr inbounds i8, ptr %249, i64 16
  %315 = getelementptr inbounds i8, ptr %249, i64 24
  %316 = load ptr, ptr %315, align 8
  %317 = load ptr, ptr %314, align 8
  %318 = getelementptr inbounds i8, ptr %317, i64 8
  store ptr %316, ptr %318, align 8
  %319 = load ptr, ptr %314, align 8
  %320 = load ptr, ptr %315, align 8
  store ptr %319, ptr %320, align 8
  %321 = load ptr, ptr %60, align 8
  store ptr %314, ptr %60, align 8
  store ptr %59, ptr %314, align 8
  store ptr %321, ptr %315, align 8
  store ptr %314, ptr %321, align 8
  br label %322

322:                                              ; preds = %301, %260, %308, %313
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %13) #14
  br label %425

323:                                              ; preds = %247
  %324 = load i64, ptr %61, align 8
  %325 = add i64 %324, 1
  store i64 %325, ptr %61, align 8
  store i8 2, ptr %136, align 4
  %326 = load ptr, ptr %62, align 8
  %327 = icmp eq ptr %326, %62
  br i1 %327, label %328, label %362

328:                                              ; preds = %323
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %11) #14
  store i64 %65, ptr %11, align 16
  store i64 %67, ptr %66, align 8
  store i64 %69, ptr %68, align 16
  %329 = call i64 @policy_gpu_evict_prepare(ptr noundef nonnull %11) #15
  %330 = load ptr, ptr %64, align 8
  %331 = icmp eq ptr %330, %64
  %332 = select i1 %331, ptr %63, ptr %64
  %333 = load ptr, ptr %332, align 8
  %334 = getelementptr inbounds i8, ptr %333, i64 16
  %335 = load ptr, ptr %334, align 8
  %336 = load ptr, ptr %21, align 8
  %337 = ptrtoint ptr %335 to i64
  %338 = ptrtoint ptr %336 to i64
  %339 = sub i64 %337, %338
  %340 = sdiv exact i64 %339, 96
  %341 = trunc i64 %340 to i32
  store i32 %341, ptr %133, align 4
  %342 = getelementptr inbounds i8, ptr %335, i64 32
  br label %343

343:                                              ; preds = %328, %343
  %344 = phi i64 [ 0, %328 ], [ %351, %343 ]
  %345 = phi i32 [ 0, %328 ], [ %350, %343 ]
  %346 = getelementptr inbounds [8 x i64], ptr %342, i64 0, i64 %344
  %347 = load i64, ptr %346, align 8
  %348 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %347)
  %349 = trunc nuw nsw i64 %348 to i32
  %350 = add i32 %345, %349
  %351 = add nuw nsw i64 %344, 1
  %352 = icmp eq i64 %351, 8
  br i1 %352, label %353, label %343

353:                                              ; preds = %343
  %354 = trunc i32 %350 to i16
  store i16 %354, ptr %135, align 2
  %355 = load i64, ptr %70, align 8
  %356 = add i64 %355, 1
  store i64 %356, ptr %70, align 8
  %357 = load i16, ptr %135, align 2
  %358 = zext i16 %357 to i64
  %359 = load i64, ptr %71, align 8
  %360 = add i64 %359, %358
  store i64 %360, ptr %71, align 8
  %361 = getelementptr inbounds i8, ptr %335, i64 24
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(72) %361, i8 0, i64 72, i1 false)
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %11) #14
  br label %362

362:                                              ; preds = %323, %353
  %363 = phi ptr [ %333, %353 ], [ %326, %323 ]
  %364 = getelementptr inbounds i8, ptr %363, i64 -16
  %365 = getelementptr inbounds i8, ptr %363, i64 16
  store ptr %148, ptr %365, align 8
  store ptr %364, ptr %248, align 8
  %366 = getelementptr inbounds i8, ptr %363, i64 8
  %367 = load ptr, ptr %366, align 8
  %368 = load ptr, ptr %363, align 8
  %369 = getelementptr inbounds i8, ptr %368, i64 8
  store ptr %367, ptr %369, align 8
  %370 = load ptr, ptr %363, align 8
  %371 = load ptr, ptr %366, align 8
  store ptr %370, ptr %371, align 8
  %372 = load ptr, ptr %73, align 8
  store ptr %363, ptr %73, align 8
  store ptr %72, ptr %363, align 8
  store ptr %372, ptr %366, align 8
  store ptr %363, ptr %372, align 8
  %373 = getelementptr inbounds i8, ptr %363, i64 32
  %374 = load i32, ptr %373, align 8
  %375 = icmp ne i32 %374, 1
  %376 = zext i1 %375 to i64
  %377 = getelementptr inbounds i8, ptr %363, i64 24
  %378 = load i64, ptr %377, align 8
  %379 = add i64 %378, %376
  store i64 %379, ptr %377, align 8
  store i32 1, ptr %373, align 8
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %10) #14
  store i64 %74, ptr %10, align 16
  %380 = ptrtoint ptr %364 to i64
  store i64 %380, ptr %75, align 8
  call void @llvm.lifetime.start.p0(i64 28, ptr nonnull %8)
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(24) %128, i8 0, i64 24, i1 false)
  store ptr %62, ptr %77, align 8
  store ptr %364, ptr %78, align 8
  store i64 %74, ptr %79, align 8
  store i64 %380, ptr %80, align 8
  store i64 %379, ptr %81, align 8
  store i32 1, ptr %82, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(28) %83, ptr noundef nonnull align 4 dereferenceable(28) %8, i64 28, i1 false)
  call void @llvm.lifetime.end.p0(i64 28, ptr nonnull %8)
  store i64 %84, ptr %76, align 16
  %381 = call i64 @policy_gpu_block_activate(ptr noundef nonnull %10) #15
  %382 = load i64, ptr %86, align 8
  %383 = icmp eq i64 %382, 1
  %384 = load i64, ptr %87, align 8
  %385 = select i1 %383, ptr %72, ptr %88
  %386 = load i8, ptr %85, align 8
  %387 = icmp eq i8 %386, 0
  br i1 %387, label %424, label %388

388:                                              ; preds = %362
  %389 = load i8, ptr %89, align 1
  %390 = icmp eq i8 %389, 0
  %391 = add i64 %382, -1
  %392 = icmp ult i64 %391, 2
  %393 = select i1 %390, i1 %392, i1 false
  br i1 %393, label %394, label %395

394:                                              ; preds = %388
  switch i64 %384, label %395 [
    i64 1, label %398
    i64 2, label %406
  ]

395:                                              ; preds = %394, %388
  %396 = load i64, ptr %18, align 8
  %397 = add i64 %396, 1
  store i64 %397, ptr %18, align 8
  br label %424

398:                                              ; preds = %394
  %399 = load ptr, ptr %366, align 8
  %400 = load ptr, ptr %363, align 8
  %401 = getelementptr inbounds i8, ptr %400, i64 8
  store ptr %399, ptr %401, align 8
  %402 = load ptr, ptr %363, align 8
  %403 = load ptr, ptr %366, align 8
  store ptr %402, ptr %403, align 8
  %404 = load ptr, ptr %385, align 8
  %405 = getelementptr inbounds i8, ptr %404, i64 8
  br label %414

406:                                              ; preds = %394
  %407 = load ptr, ptr %366, align 8
  %408 = load ptr, ptr %363, align 8
  %409 = getelementptr inbounds i8, ptr %408, i64 8
  store ptr %407, ptr %409, align 8
  %410 = load ptr, ptr %363, align 8
  %411 = load ptr, ptr %366, align 8
  store ptr %410, ptr %411, align 8
  %412 = getelementptr inbounds i8, ptr %385, i64 8
  %413 = load ptr, ptr %412, align 8
  br label %414

414:                                              ; preds = %406, %398
  %415 = phi ptr [ %412, %406 ], [ %405, %398 ]
  %416 = phi ptr [ %385, %406 ], [ %404, %398 ]
  %417 = phi ptr [ %413, %406 ], [ %385, %398 ]
  store ptr %363, ptr %415, align 8
  store ptr %416, ptr %363, align 8
  store ptr %417, ptr %366, align 8
  store ptr %363, ptr %417, align 8
  %418 = select i1 %383, i32 1, i32 2
  %419 = load i32, ptr %373, align 8
  %420 = icmp ne i32 %419, %418
  %421 = zext i1 %420 to i64
  %422 = load i64, ptr %377, align 8
  %423 = add i64 %422, %421
  store i64 %423, ptr %377, align 8
  store i32 %418, ptr %373, align 8
  br label %424

424:                                              ; preds = %362, %395, %414
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %10) #14
  br label %425

425:                                              ; preds = %424, %322
  %426 = and i64 %145, 63
  %427 = xor i64 %426, 63
  %428 = lshr i64 -1, %427
  br label %429

429:                                              ; preds = %425, %429
  %430 = phi i32 [ 0, %425 ], [ %447, %429 ]
  %431 = phi i32 [ %150, %425 ], [ %449, %429 ]
  %432 = or i32 %431, 63
  %433 = icmp ugt i32 %432, %150
  %434 = and i32 %431, 63
  %435 = zext nneg i32 %434 to i64
  %436 = shl nsw i64 -1, %435
  %437 = select i1 %433, i64 %428, i64 -1
  %438 = and i64 %436, %437
  %439 = lshr i32 %431, 6
  %440 = zext nneg i32 %439 to i64
  %441 = getelementptr inbounds [8 x i64], ptr %153, i64 0, i64 %440
  %442 = load i64, ptr %441, align 8
  %443 = xor i64 %442, -1
  %444 = and i64 %438, %443
  %445 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %444)
  %446 = trunc nuw nsw i64 %445 to i32
  %447 = add i32 %430, %446
  %448 = or i64 %442, %438
  store i64 %448, ptr %441, align 8
  %449 = add nuw nsw i32 %432, 1
  %450 = icmp ult i32 %432, %150
  br i1 %450, label %429, label %451

451:                                              ; preds = %429
  %452 = load i16, ptr %134, align 4
  %453 = trunc i32 %447 to i16
  %454 = add i16 %452, %453
  store i16 %454, ptr %134, align 4
  %455 = zext i32 %447 to i64
  %456 = load i64, ptr %90, align 8
  %457 = add i64 %456, %455
  store i64 %457, ptr %90, align 8
  call void @llvm.lifetime.start.p0(i64 32, ptr nonnull %9) #14
  %458 = and i64 %145, 511
  store i64 %458, ptr %9, align 16
  store i64 %93, ptr %91, align 8
  store i64 %96, ptr %94, align 16
  store i64 %99, ptr %97, align 8
  %459 = ptrtoint ptr %148 to i64
  store i64 %459, ptr %100, align 8
  store i64 1, ptr %101, align 8
  store i64 %458, ptr %102, align 8
  store i64 %93, ptr %103, align 8
  %460 = call i64 @policy_uvm_perf_prefetch_get_hint_va_block(ptr noundef nonnull %104) #15
  call void @llvm.memmove.p0.p0.i64(ptr noundef nonnull align 8 dereferenceable(64) %92, ptr noundef nonnull align 8 dereferenceable(64) %153, i64 64, i1 false)
  store i16 0, ptr %105, align 8
  store i16 512, ptr %106, align 2
  store i8 10, ptr %107, align 4
  store i16 0, ptr %95, align 8
  store i16 512, ptr %108, align 2
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(24) %98, i8 0, i64 24, i1 false)
  %461 = call i64 @policy_gpu_page_prefetch(ptr noundef nonnull %9) #15
  %462 = trunc i64 %461 to i32
  switch i32 %462, label %581 [
    i32 0, label %584
    i32 2, label %463
    i32 1, label %552
  ]

463:                                              ; preds = %451, %542
  %464 = phi i16 [ %544, %542 ], [ 0, %451 ]
  %465 = phi i16 [ %543, %542 ], [ 0, %451 ]
  %466 = phi i32 [ %545, %542 ], [ %462, %451 ]
  %467 = sub nsw i32 0, %466
  %468 = and i32 %150, %467
  %469 = icmp ult i32 %466, 64
  %470 = lshr i32 %468, 6
  br i1 %469, label %471, label %484

471:                                              ; preds = %463
  %472 = zext nneg i32 %470 to i64
  %473 = getelementptr inbounds [8 x i64], ptr %92, i64 0, i64 %472
  %474 = load i64, ptr %473, align 8
  %475 = and i32 %468, 62
  %476 = zext nneg i32 %475 to i64
  %477 = lshr i64 %474, %476
  %478 = zext nneg i32 %466 to i64
  %479 = shl nsw i64 -1, %478
  %480 = xor i64 %479, -1
  %481 = and i64 %477, %480
  %482 = call range(i64 0, 64) i64 @llvm.ctpop.i64(i64 %481)
  %483 = trunc nuw nsw i64 %482 to i32
  br label %504

484:                                              ; preds = %463
  %485 = add nuw nsw i32 %468, %466
  %486 = lshr i32 %485, 6
  %487 = icmp ult i32 %470, %486
  br i1 %487, label %488, label %504

488:                                              ; preds = %484
  %489 = lshr i32 %468, 6
  %490 = zext nneg i32 %489 to i64
  %491 = add nuw nsw i32 %486, %489
  %492 = sub nsw i32 %491, %470
  %493 = zext i32 %492 to i64
  br label %494

494:                                              ; preds = %488, %494
  %495 = phi i64 [ %490, %488 ], [ %502, %494 ]
  %496 = phi i32 [ 0, %488 ], [ %501, %494 ]
  %497 = getelementptr inbounds [8 x i64], ptr %92, i64 0, i64 %495
  %498 = load i64, ptr %497, align 8
  %499 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %498)
  %500 = trunc nuw nsw i64 %499 to i32
  %501 = add i32 %496, %500
  %502 = add nuw nsw i64 %495, 1
  %503 = icmp eq i64 %502, %493
  br i1 %503, label %504, label %494

504:                                              ; preds = %494, %484, %471
  %505 = phi i32 [ %483, %471 ], [ 0, %484 ], [ %501, %494 ]
  %506 = trunc nuw nsw i32 %468 to i16
  %507 = add nuw nsw i32 %468, %466
  %508 = trunc nuw i32 %507 to i16
  store i16 %506, ptr %114, align 4
  store i16 %508, ptr %115, align 2
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(24) %98, i8 0, i64 24, i1 false)
  call void @llvm.lifetime.start.p0(i64 40, ptr nonnull %5) #14
  store i64 %93, ptr %5, align 16
  store i64 %96, ptr %116, align 8
  store i64 %118, ptr %117, align 16
  %509 = zext i32 %505 to i64
  store i64 %509, ptr %119, align 8
  store i64 %99, ptr %120, align 16
  %510 = call i64 @policy_gpu_page_prefetch_iter(ptr noundef nonnull %5) #15
  %511 = and i64 %510, 4294967295
  %512 = icmp eq i64 %511, 1
  br i1 %512, label %513, label %542

513:                                              ; preds = %504
  %514 = load i64, ptr %121, align 8
  %515 = icmp eq i64 %514, 0
  br i1 %515, label %516, label %519

516:                                              ; preds = %513
  %517 = load i64, ptr %122, align 8
  %518 = icmp eq i64 %517, 0
  br label %519

519:                                              ; preds = %516, %513
  %520 = phi i1 [ false, %513 ], [ %518, %516 ]
  %521 = load i8, ptr %98, align 8
  %522 = icmp eq i8 %521, 0
  br i1 %522, label %539, label %523

523:                                              ; preds = %519
  %524 = load i8, ptr %123, align 1
  %525 = icmp ne i8 %524, 0
  %526 = select i1 %525, i1 true, i1 %520
  %527 = xor i1 %525, true
  br i1 %526, label %533, label %528

528:                                              ; preds = %523
  %529 = load i64, ptr %124, align 8
  %530 = icmp ult i64 %514, %529
  %531 = icmp ult i64 %529, 513
  %532 = and i1 %530, %531
  br label %533

533:                                              ; preds = %523, %528
  %534 = phi i1 [ %527, %523 ], [ %532, %528 ]
  br i1 %534, label %535, label %539

535:                                              ; preds = %533
  %536 = load i64, ptr %125, align 8
  %537 = trunc i64 %536 to i16
  %538 = trunc i64 %514 to i16
  br label %542

539:                                              ; preds = %519, %533
  %540 = load i64, ptr %18, align 8
  %541 = add i64 %540, 1
  store i64 %541, ptr %18, align 8
  br label %542

542:                                              ; preds = %539, %535, %504
  %543 = phi i16 [ %465, %504 ], [ %537, %535 ], [ %465, %539 ]
  %544 = phi i16 [ %464, %504 ], [ %538, %535 ], [ %464, %539 ]
  call void @llvm.lifetime.end.p0(i64 40, ptr nonnull %5) #14
  %545 = shl nuw nsw i32 %466, 1
  %546 = icmp ult i32 %466, 257
  br i1 %546, label %463, label %547

547:                                              ; preds = %542
  %548 = zext i16 %543 to i32
  %549 = shl nuw i32 %548, 16
  %550 = zext i16 %544 to i32
  %551 = or disjoint i32 %549, %550
  br label %643

552:                                              ; preds = %451
  %553 = load i64, ptr %109, align 8
  %554 = icmp eq i64 %553, 0
  br i1 %554, label %555, label %558

555:                                              ; preds = %552
  %556 = load i64, ptr %110, align 8
  %557 = icmp eq i64 %556, 0
  br label %558

558:                                              ; preds = %555, %552
  %559 = phi i1 [ false, %552 ], [ %557, %555 ]
  %560 = load i8, ptr %98, align 8
  %561 = icmp eq i8 %560, 0
  br i1 %561, label %581, label %562

562:                                              ; preds = %558
  %563 = load i8, ptr %111, align 1
  %564 = icmp ne i8 %563, 0
  %565 = select i1 %564, i1 true, i1 %559
  %566 = xor i1 %564, true
  br i1 %565, label %572, label %567

567:                                              ; preds = %562
  %568 = load i64, ptr %112, align 8
  %569 = icmp ult i64 %553, %568
  %570 = icmp ult i64 %568, 513
  %571 = and i1 %569, %570
  br label %572

572:                                              ; preds = %562, %567
  %573 = phi i1 [ %566, %562 ], [ %571, %567 ]
  br i1 %573, label %574, label %581

574:                                              ; preds = %572
  %575 = trunc i64 %553 to i32
  %576 = load i64, ptr %113, align 8
  %577 = trunc i64 %576 to i32
  %578 = shl i32 %577, 16
  %579 = and i32 %575, 65535
  %580 = or disjoint i32 %578, %579
  br label %643

581:                                              ; preds = %558, %572, %451
  %582 = load i64, ptr %18, align 8
  %583 = add i64 %582, 1
  store i64 %583, ptr %18, align 8
  br label %584

584:                                              ; preds = %581, %451
  br label %585

585:                                              ; preds = %584, %626
  %586 = phi i16 [ %635, %626 ], [ 0, %584 ]
  %587 = phi i16 [ %634, %626 ], [ 0, %584 ]
  %588 = phi i32 [ %636, %626 ], [ 2, %584 ]
  %589 = sub nsw i32 0, %588
  %590 = and i32 %150, %589
  %591 = icmp ult i32 %588, 64
  %592 = lshr i32 %590, 6
  br i1 %591, label %593, label %606

593:                                              ; preds = %585
  %594 = zext nneg i32 %592 to i64
  %595 = getelementptr inbounds [8 x i64], ptr %92, i64 0, i64 %594
  %596 = load i64, ptr %595, align 8
  %597 = and i32 %590, 62
  %598 = zext nneg i32 %597 to i64
  %599 = lshr i64 %596, %598
  %600 = zext nneg i32 %588 to i64
  %601 = shl nsw i64 -1, %600
  %602 = xor i64 %601, -1
  %603 = and i64 %599, %602
  %604 = call range(i64 0, 64) i64 @llvm.ctpop.i64(i64 %603)
  %605 = trunc nuw nsw i64 %604 to i32
  br label %626

606:                                              ; preds = %585
  %607 = add nuw nsw i32 %590, %588
  %608 = lshr i32 %607, 6
  %609 = icmp ult i32 %592, %608
  br i1 %609, label %610, label %626

610:                                              ; preds = %606
  %611 = lshr i32 %590, 6
  %612 = zext nneg i32 %611 to i64
  %613 = add nuw nsw i32 %608, %611
  %614 = sub nsw i32 %613, %592
  %615 = zext i32 %614 to i64
  br label %616

616:                                              ; preds = %610, %616
  %617 = phi i64 [ %612, %610 ], [ %624, %616 ]
  %618 = phi i32 [ 0, %610 ], [ %623, %616 ]
  %619 = getelementptr inbounds [8 x i64], ptr %92, i64 0, i64 %617
  %620 = load i64, ptr %619, align 8
  %621 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %620)
  %622 = trunc nuw nsw i64 %621 to i32
  %623 = add i32 %618, %622
  %624 = add nuw nsw i64 %617, 1
  %625 = icmp eq i64 %624, %615
  br i1 %625, label %626, label %616

626:                                              ; preds = %616, %606, %593
  %627 = phi i32 [ %605, %593 ], [ 0, %606 ], [ %623, %616 ]
  %628 = trunc nuw nsw i32 %590 to i16
  %629 = add nuw nsw i32 %590, %588
  %630 = trunc nuw i32 %629 to i16
  %631 = mul i32 %627, 100
  %632 = mul nuw nsw i32 %588, 51
  %633 = icmp ugt i32 %631, %632
  %634 = select i1 %633, i16 %630, i16 %587
  %635 = select i1 %633, i16 %628, i16 %586
  %636 = shl nuw nsw i32 %588, 1
  %637 = icmp ult i32 %588, 257
  br i1 %637, label %585, label %638

638:                                              ; preds = %626
  %639 = zext i16 %634 to i32
  %640 = shl nuw i32 %639, 16
  %641 = zext nneg i16 %635 to i32
  %642 = or disjoint i32 %640, %641
  br label %643

643:                                              ; preds = %547, %574, %638
  %644 = phi i32 [ %642, %638 ], [ %580, %574 ], [ %551, %547 ]
  call void @llvm.lifetime.end.p0(i64 32, ptr nonnull %9) #14
  %645 = lshr i32 %644, 16
  %646 = and i32 %644, 65535
  %647 = icmp ult i32 %646, %645
  br i1 %647, label %648, label %676

648:                                              ; preds = %643
  %649 = add nuw nsw i32 %645, 63
  %650 = and i32 %649, 63
  %651 = xor i32 %650, 63
  br label %652

652:                                              ; preds = %648, %652
  %653 = phi i32 [ 0, %648 ], [ %672, %652 ]
  %654 = phi i32 [ %646, %648 ], [ %674, %652 ]
  %655 = or i32 %654, 63
  %656 = icmp ult i32 %655, %645
  %657 = and i32 %654, 63
  %658 = zext nneg i32 %657 to i64
  %659 = shl nsw i64 -1, %658
  %660 = select i1 %656, i32 0, i32 %651
  %661 = zext nneg i32 %660 to i64
  %662 = lshr i64 -1, %661
  %663 = and i64 %662, %659
  %664 = lshr i32 %654, 6
  %665 = zext nneg i32 %664 to i64
  %666 = getelementptr inbounds [8 x i64], ptr %153, i64 0, i64 %665
  %667 = load i64, ptr %666, align 8
  %668 = xor i64 %667, -1
  %669 = and i64 %663, %668
  %670 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %669)
  %671 = trunc nuw nsw i64 %670 to i32
  %672 = add i32 %653, %671
  %673 = or i64 %667, %663
  store i64 %673, ptr %666, align 8
  %674 = add nuw nsw i32 %655, 1
  %675 = icmp ult i32 %674, %645
  br i1 %675, label %652, label %676

676:                                              ; preds = %652, %643
  %677 = phi i32 [ 0, %643 ], [ %672, %652 ]
  %678 = load i16, ptr %134, align 4
  %679 = trunc i32 %677 to i16
  %680 = add i16 %678, %679
  store i16 %680, ptr %134, align 4
  %681 = zext i32 %677 to i64
  %682 = load i64, ptr %90, align 8
  %683 = add i64 %682, %681
  store i64 %683, ptr %90, align 8
  br label %684

684:                                              ; preds = %162, %238, %676
  %685 = load i64, ptr %18, align 8
  %686 = sub i64 %685, %132
  %687 = call i64 @llvm.umin.i64(i64 %686, i64 255)
  %688 = trunc nuw i64 %687 to i8
  store i8 %688, ptr %137, align 1
  %689 = add nuw i64 %131, 1
  %690 = icmp eq i64 %689, %2
  br i1 %690, label %129, label %130
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
  %20 = call i64 @policy_on_task_init(ptr noundef nonnull %5) #15
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
  %62 = call i64 @policy_on_bind(ptr noundef nonnull %6) #15
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
  %27 = call i64 @policy_on_timeslice_control(ptr noundef nonnull %5) #15
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
  %21 = tail call i64 @policy_launched(ptr noundef nonnull %14) #15
  br label %24

22:                                               ; preds = %12
  %23 = tail call i64 @policy_launch(ptr noundef nonnull %14) #15
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
  %14 = call i64 @policy_on_task_destroy(ptr noundef nonnull %5) #15
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

declare i64 @llvm.umin.i64(i64, i64) #12

declare void @llvm.memmove.p0.p0.i64(ptr nocapture writeonly, ptr nocapture readonly, i64, i1 immarg) #13

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
attributes #12 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #13 = { nocallback nofree nounwind willreturn memory(argmem: readwrite) }
attributes #14 = { nounwind }
attributes #15 = { nobuiltin nounwind "no-builtins" }
