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

define dso_local range(i64 -14, 1) i64 @accel_helper_113(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #3 {
  %6 = load i64, ptr @accel_arena_size, align 8
  %7 = icmp uge i64 %6, %1
  %8 = load i64, ptr @accel_arena, align 8
  %9 = sub i64 %2, %8
  %10 = sub i64 %6, %1
  %11 = icmp ule i64 %9, %10
  %12 = select i1 %7, i1 %11, i1 false
  %13 = icmp eq i64 %1, 0
  br i1 %13, label %17, label %14

14:                                               ; preds = %5
  %15 = inttoptr i64 %2 to ptr
  %16 = inttoptr i64 %0 to ptr
  br label %19

17:                                               ; preds = %24, %5
  %18 = select i1 %12, i64 0, i64 -14
  ret i64 %18

19:                                               ; preds = %14, %24
  %20 = phi i64 [ 0, %14 ], [ %27, %24 ]
  br i1 %12, label %21, label %24

21:                                               ; preds = %19
  %22 = getelementptr inbounds i8, ptr %15, i64 %20
  %23 = load i8, ptr %22, align 1
  br label %24

24:                                               ; preds = %19, %21
  %25 = phi i8 [ %23, %21 ], [ 0, %19 ]
  %26 = getelementptr inbounds i8, ptr %16, i64 %20
  store i8 %25, ptr %26, align 1
  %27 = add nuw i64 %20, 1
  %28 = icmp eq i64 %27, %1
  br i1 %28, label %17, label %19
}

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

define dso_local noundef i64 @accel_helper_10002(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
  %6 = inttoptr i64 %0 to ptr
  %7 = getelementptr inbounds i8, ptr %6, i64 32
  store i64 %1, ptr %7, align 8
  ret i64 0
}

define dso_local noundef i64 @accel_helper_10003(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
  %6 = trunc i64 %1 to i32
  %7 = inttoptr i64 %0 to ptr
  %8 = getelementptr inbounds i8, ptr %7, i64 40
  store i32 %6, ptr %8, align 8
  ret i64 0
}

define dso_local noundef i64 @accel_helper_10004(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
  %6 = inttoptr i64 %0 to ptr
  %7 = getelementptr inbounds i8, ptr %6, i64 28
  store i32 0, ptr %7, align 4
  ret i64 0
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

define dso_local void @model_run(ptr nocapture noundef readonly %0, ptr nocapture noundef readonly %1, i64 noundef %2, ptr nocapture noundef %3) local_unnamed_addr #5 {
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
  br i1 %14, label %126, label %15

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
  %100 = getelementptr inbounds i8, ptr %17, i64 552
  %101 = getelementptr inbounds i8, ptr %17, i64 440
  %102 = getelementptr inbounds i8, ptr %17, i64 240
  %103 = getelementptr inbounds i8, ptr %17, i64 242
  %104 = getelementptr inbounds i8, ptr %17, i64 244
  %105 = getelementptr inbounds i8, ptr %17, i64 250
  %106 = getelementptr inbounds i8, ptr %17, i64 264
  %107 = getelementptr inbounds i8, ptr %17, i64 272
  %108 = getelementptr inbounds i8, ptr %17, i64 257
  %109 = getelementptr inbounds i8, ptr %17, i64 272
  %110 = getelementptr inbounds i8, ptr %17, i64 272
  %111 = getelementptr inbounds i8, ptr %17, i64 252
  %112 = getelementptr inbounds i8, ptr %17, i64 254
  %113 = getelementptr inbounds i8, ptr %5, i64 8
  %114 = getelementptr inbounds i8, ptr %5, i64 16
  %115 = ptrtoint ptr %111 to i64
  %116 = getelementptr inbounds i8, ptr %5, i64 24
  %117 = getelementptr inbounds i8, ptr %5, i64 32
  %118 = getelementptr inbounds i8, ptr %17, i64 264
  %119 = getelementptr inbounds i8, ptr %17, i64 272
  %120 = getelementptr inbounds i8, ptr %17, i64 257
  %121 = getelementptr inbounds i8, ptr %17, i64 272
  %122 = getelementptr inbounds i8, ptr %17, i64 272
  %123 = getelementptr inbounds i8, ptr %7, i64 4
  %124 = getelementptr inbounds i8, ptr %6, i64 4
  %125 = getelementptr inbounds i8, ptr %8, i64 4
  br label %127

126:                                              ; preds = %681, %4
  ret void

127:                                              ; preds = %15, %681
  %128 = phi i64 [ 0, %15 ], [ %686, %681 ]
  %129 = load i64, ptr %18, align 8
  %130 = getelementptr inbounds %struct.access, ptr %3, i64 %128
  store i32 -1, ptr %130, align 4
  %131 = getelementptr inbounds i8, ptr %130, i64 4
  store i16 0, ptr %131, align 4
  %132 = getelementptr inbounds i8, ptr %130, i64 6
  store i16 0, ptr %132, align 2
  %133 = getelementptr inbounds i8, ptr %130, i64 8
  store i8 0, ptr %133, align 4
  %134 = getelementptr inbounds i8, ptr %130, i64 9
  store i8 0, ptr %134, align 1
  %135 = getelementptr inbounds i8, ptr %130, i64 10
  store i16 0, ptr %135, align 2
  %136 = load ptr, ptr %19, align 8
  %137 = getelementptr inbounds i16, ptr %1, i64 %128
  %138 = load i16, ptr %137, align 2
  %139 = zext i16 %138 to i64
  %140 = getelementptr inbounds %struct.tenant, ptr %136, i64 %139
  store ptr %140, ptr %20, align 8
  %141 = getelementptr inbounds i64, ptr %0, i64 %128
  %142 = load i64, ptr %141, align 8
  %143 = load ptr, ptr %21, align 8
  %144 = lshr i64 %142, 9
  %145 = getelementptr inbounds %struct.uvm_va_block_struct, ptr %143, i64 %144
  %146 = trunc i64 %142 to i32
  %147 = and i32 %146, 511
  %148 = load i64, ptr %22, align 8
  %149 = add i64 %148, 1
  store i64 %149, ptr %22, align 8
  %150 = getelementptr inbounds i8, ptr %145, i64 32
  %151 = lshr i32 %147, 6
  %152 = zext nneg i32 %151 to i64
  %153 = getelementptr inbounds [8 x i64], ptr %150, i64 0, i64 %152
  %154 = load i64, ptr %153, align 8
  %155 = and i64 %142, 63
  %156 = shl nuw i64 1, %155
  %157 = and i64 %154, %156
  %158 = icmp eq i64 %157, 0
  br i1 %158, label %236, label %159

159:                                              ; preds = %127
  %160 = load i64, ptr %23, align 8
  %161 = icmp eq i64 %160, 0
  br i1 %161, label %681, label %162

162:                                              ; preds = %159
  %163 = getelementptr inbounds i8, ptr %145, i64 24
  %164 = load ptr, ptr %163, align 8
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %12) #12
  store i64 %25, ptr %12, align 16
  %165 = ptrtoint ptr %164 to i64
  store i64 %165, ptr %26, align 8
  call void @llvm.lifetime.start.p0(i64 28, ptr nonnull %7)
  %166 = getelementptr inbounds i8, ptr %164, i64 40
  %167 = load i64, ptr %166, align 8
  %168 = getelementptr inbounds i8, ptr %164, i64 48
  %169 = load i32, ptr %168, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(24) %123, i8 0, i64 24, i1 false)
  store ptr %24, ptr %28, align 8
  store ptr %164, ptr %29, align 8
  store i64 %25, ptr %30, align 8
  store i64 %165, ptr %31, align 8
  store i64 %167, ptr %32, align 8
  store i32 %169, ptr %33, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(28) %34, ptr noundef nonnull align 4 dereferenceable(28) %7, i64 28, i1 false)
  call void @llvm.lifetime.end.p0(i64 28, ptr nonnull %7)
  store i64 %35, ptr %27, align 16
  %170 = call i64 @policy_gpu_block_access(ptr noundef nonnull %12) #13
  %171 = trunc i64 %170 to i32
  %172 = icmp ugt i32 %171, 1
  br i1 %172, label %173, label %176

173:                                              ; preds = %162
  %174 = load i64, ptr %18, align 8
  %175 = add i64 %174, 1
  store i64 %175, ptr %18, align 8
  br label %235

176:                                              ; preds = %162
  %177 = load i64, ptr %37, align 8
  %178 = icmp eq i64 %177, 1
  %179 = load i64, ptr %38, align 8
  %180 = select i1 %178, i64 144, i64 160
  %181 = getelementptr inbounds i8, ptr %17, i64 %180
  %182 = load i8, ptr %36, align 8
  %183 = icmp eq i8 %182, 0
  br i1 %183, label %221, label %184

184:                                              ; preds = %176
  %185 = load i8, ptr %39, align 1
  %186 = icmp eq i8 %185, 0
  %187 = add i64 %177, -1
  %188 = icmp ult i64 %187, 2
  %189 = select i1 %186, i1 %188, i1 false
  br i1 %189, label %190, label %191

190:                                              ; preds = %184
  switch i64 %179, label %191 [
    i64 1, label %194
    i64 2, label %204
  ]

191:                                              ; preds = %190, %184
  %192 = load i64, ptr %18, align 8
  %193 = add i64 %192, 1
  store i64 %193, ptr %18, align 8
  br label %221

194:                                              ; preds = %190
  %195 = getelementptr inbounds i8, ptr %164, i64 16
  %196 = getelementptr inbounds i8, ptr %164, i64 24
  %197 = load ptr, ptr %196, align 8
  %198 = load ptr, ptr %195, align 8
  %199 = getelementptr inbounds i8, ptr %198, i64 8
  store ptr %197, ptr %199, align 8
  %200 = load ptr, ptr %195, align 8
  %201 = load ptr, ptr %196, align 8
  store ptr %200, ptr %201, align 8
  %202 = load ptr, ptr %181, align 8
  %203 = getelementptr inbounds i8, ptr %202, i64 8
  store ptr %195, ptr %203, align 8
  store ptr %202, ptr %195, align 8
  store ptr %181, ptr %196, align 8
  store ptr %195, ptr %181, align 8
  br label %214

204:                                              ; preds = %190
  %205 = getelementptr inbounds i8, ptr %164, i64 16
  %206 = getelementptr inbounds i8, ptr %164, i64 24
  %207 = load ptr, ptr %206, align 8
  %208 = load ptr, ptr %205, align 8
  %209 = getelementptr inbounds i8, ptr %208, i64 8
  store ptr %207, ptr %209, align 8
  %210 = load ptr, ptr %205, align 8
  %211 = load ptr, ptr %206, align 8
  store ptr %210, ptr %211, align 8
  %212 = getelementptr inbounds i8, ptr %181, i64 8
  %213 = load ptr, ptr %212, align 8
  store ptr %205, ptr %212, align 8
  store ptr %181, ptr %205, align 8
  store ptr %213, ptr %206, align 8
  store ptr %205, ptr %213, align 8
  br label %214

214:                                              ; preds = %204, %194
  %215 = select i1 %178, i32 1, i32 2
  %216 = load i32, ptr %168, align 8
  %217 = icmp ne i32 %216, %215
  %218 = zext i1 %217 to i64
  %219 = load i64, ptr %166, align 8
  %220 = add i64 %219, %218
  store i64 %220, ptr %166, align 8
  store i32 %215, ptr %168, align 8
  br label %235

221:                                              ; preds = %176, %191
  %222 = load i8, ptr %36, align 8
  %223 = icmp eq i8 %222, 0
  %224 = icmp eq i32 %171, 0
  %225 = and i1 %224, %223
  br i1 %225, label %226, label %235

226:                                              ; preds = %221
  %227 = getelementptr inbounds i8, ptr %164, i64 16
  %228 = getelementptr inbounds i8, ptr %164, i64 24
  %229 = load ptr, ptr %228, align 8
  %230 = load ptr, ptr %227, align 8
  %231 = getelementptr inbounds i8, ptr %230, i64 8
  store ptr %229, ptr %231, align 8
  %232 = load ptr, ptr %227, align 8
  %233 = load ptr, ptr %228, align 8
  store ptr %232, ptr %233, align 8
  %234 = load ptr, ptr %41, align 8
  store ptr %227, ptr %41, align 8
  store ptr %40, ptr %227, align 8
  store ptr %234, ptr %228, align 8
  store ptr %227, ptr %234, align 8
  br label %235

235:                                              ; preds = %214, %173, %221, %226
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %12) #12
  br label %681

236:                                              ; preds = %127
  %237 = load i64, ptr %42, align 8
  %238 = add i64 %237, 1
  store i64 %238, ptr %42, align 8
  store i8 1, ptr %133, align 4
  %239 = load ptr, ptr %145, align 8
  %240 = icmp eq ptr %239, null
  br i1 %240, label %241, label %244

241:                                              ; preds = %236
  %242 = load ptr, ptr %20, align 8
  %243 = getelementptr inbounds i8, ptr %242, i64 40
  store ptr %243, ptr %145, align 8
  br label %244

244:                                              ; preds = %241, %236
  %245 = getelementptr inbounds i8, ptr %145, i64 24
  %246 = load ptr, ptr %245, align 8
  %247 = icmp eq ptr %246, null
  br i1 %247, label %320, label %248

248:                                              ; preds = %244
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %13) #12
  store i64 %44, ptr %13, align 16
  %249 = ptrtoint ptr %246 to i64
  store i64 %249, ptr %45, align 8
  call void @llvm.lifetime.start.p0(i64 28, ptr nonnull %6)
  %250 = getelementptr inbounds i8, ptr %246, i64 40
  %251 = load i64, ptr %250, align 8
  %252 = getelementptr inbounds i8, ptr %246, i64 48
  %253 = load i32, ptr %252, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(24) %124, i8 0, i64 24, i1 false)
  store ptr %43, ptr %47, align 8
  store ptr %246, ptr %48, align 8
  store i64 %44, ptr %49, align 8
  store i64 %249, ptr %50, align 8
  store i64 %251, ptr %51, align 8
  store i32 %253, ptr %52, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(28) %53, ptr noundef nonnull align 4 dereferenceable(28) %6, i64 28, i1 false)
  call void @llvm.lifetime.end.p0(i64 28, ptr nonnull %6)
  store i64 %54, ptr %46, align 16
  %254 = call i64 @policy_gpu_block_access(ptr noundef nonnull %13) #13
  %255 = trunc i64 %254 to i32
  %256 = icmp ugt i32 %255, 1
  br i1 %256, label %257, label %260

257:                                              ; preds = %248
  %258 = load i64, ptr %18, align 8
  %259 = add i64 %258, 1
  store i64 %259, ptr %18, align 8
  br label %319

260:                                              ; preds = %248
  %261 = load i64, ptr %56, align 8
  %262 = icmp eq i64 %261, 1
  %263 = load i64, ptr %57, align 8
  %264 = select i1 %262, i64 144, i64 160
  %265 = getelementptr inbounds i8, ptr %17, i64 %264
  %266 = load i8, ptr %55, align 8
  %267 = icmp eq i8 %266, 0
  br i1 %267, label %305, label %268

268:                                              ; preds = %260
  %269 = load i8, ptr %58, align 1
  %270 = icmp eq i8 %269, 0
  %271 = add i64 %261, -1
  %272 = icmp ult i64 %271, 2
  %273 = select i1 %270, i1 %272, i1 false
  br i1 %273, label %274, label %275

274:                                              ; preds = %268
  switch i64 %263, label %275 [
    i64 1, label %278
    i64 2, label %288
  ]

275:                                              ; preds = %274, %268
  %276 = load i64, ptr %18, align 8
  %277 = add i64 %276, 1
  store i64 %277, ptr %18, align 8
  br label %305

278:                                              ; preds = %274
  %279 = getelementptr inbounds i8, ptr %246, i64 16
  %280 = getelementptr inbounds i8, ptr %246, i64 24
  %281 = load ptr, ptr %280, align 8
  %282 = load ptr, ptr %279, align 8
  %283 = getelementptr inbounds i8, ptr %282, i64 8
  store ptr %281, ptr %283, align 8
  %284 = load ptr, ptr %279, align 8
  %285 = load ptr, ptr %280, align 8
  store ptr %284, ptr %285, align 8
  %286 = load ptr, ptr %265, align 8
  %287 = getelementptr inbounds i8, ptr %286, i64 8
  store ptr %279, ptr %287, align 8
  store ptr %286, ptr %279, align 8
  store ptr %265, ptr %280, align 8
  store ptr %279, ptr %265, align 8
  br label %298

288:                                              ; preds = %274
  %289 = getelementptr inbounds i8, ptr %246, i64 16
  %290 = getelementptr inbounds i8, ptr %246, i64 24
  %291 = load ptr, ptr %290, align 8
  %292 = load ptr, ptr %289, align 8
  %293 = getelementptr inbounds i8, ptr %292, i64 8
  store ptr %291, ptr %293, align 8
  %294 = load ptr, ptr %289, align 8
  %295 = load ptr, ptr %290, align 8
  store ptr %294, ptr %295, align 8
  %296 = getelementptr inbounds i8, ptr %265, i64 8
  %297 = load ptr, ptr %296, align 8
  store ptr %289, ptr %296, align 8
  store ptr %265, ptr %289, align 8
  store ptr %297, ptr %290, align 8
  store ptr %289, ptr %297, align 8
  br label %298

298:                                              ; preds = %288, %278
  %299 = select i1 %262, i32 1, i32 2
  %300 = load i32, ptr %252, align 8
  %301 = icmp ne i32 %300, %299
  %302 = zext i1 %301 to i64
  %303 = load i64, ptr %250, align 8
  %304 = add i64 %303, %302
  store i64 %304, ptr %250, align 8
  store i32 %299, ptr %252, align 8
  br label %319

305:                                              ; preds = %260, %275
  %306 = load i8, ptr %55, align 8
  %307 = icmp eq i8 %306, 0
  %308 = icmp eq i32 %255, 0
  %309 = and i1 %308, %307
  br i1 %309, label %310, label %319

310:                                              ; preds = %305
  %311 = getelementptr inbounds i8, ptr %246, i64 16
  %312 = getelementptr inbounds i8, ptr %246, i64 24
  %313 = load ptr, ptr %312, align 8
  %314 = load ptr, ptr %311, align 8
  %315 = getelementptr inbounds i8, ptr %314, i64 8
  store ptr %313, ptr %315, align 8
  %316 = load ptr, ptr %311, align 8
  %317 = load ptr, ptr %312, align 8
  store ptr %316, ptr %317, align 8
  %318 = load ptr, ptr %60, align 8
  store ptr %311, ptr %60, align 8
  store ptr %59, ptr %311, align 8
  store ptr %318, ptr %312, align 8
  store ptr %311, ptr %318, align 8
  br label %319

319:                                              ; preds = %298, %257, %305, %310
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %13) #12
  br label %422

320:                                              ; preds = %244
  %321 = load i64, ptr %61, align 8
  %322 = add i64 %321, 1
  store i64 %322, ptr %61, align 8
  store i8 2, ptr %133, align 4
  %323 = load ptr, ptr %62, align 8
  %324 = icmp eq ptr %323, %62
  br i1 %324, label %325, label %359

325:                                              ; preds = %320
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %11) #12
  store i64 %65, ptr %11, align 16
  store i64 %67, ptr %66, align 8
  store i64 %69, ptr %68, align 16
  %326 = call i64 @policy_gpu_evict_prepare(ptr noundef nonnull %11) #13
  %327 = load ptr, ptr %64, align 8
  %328 = icmp eq ptr %327, %64
  %329 = select i1 %328, ptr %63, ptr %64
  %330 = load ptr, ptr %329, align 8
  %331 = getelementptr inbounds i8, ptr %330, i64 16
  %332 = load ptr, ptr %331, align 8
  %333 = load ptr, ptr %21, align 8
  %334 = ptrtoint ptr %332 to i64
  %335 = ptrtoint ptr %333 to i64
  %336 = sub i64 %334, %335
  %337 = sdiv exact i64 %336, 96
  %338 = trunc i64 %337 to i32
  store i32 %338, ptr %130, align 4
  %339 = getelementptr inbounds i8, ptr %332, i64 32
  br label %340

340:                                              ; preds = %325, %340
  %341 = phi i64 [ 0, %325 ], [ %348, %340 ]
  %342 = phi i32 [ 0, %325 ], [ %347, %340 ]
  %343 = getelementptr inbounds [8 x i64], ptr %339, i64 0, i64 %341
  %344 = load i64, ptr %343, align 8
  %345 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %344)
  %346 = trunc nuw nsw i64 %345 to i32
  %347 = add i32 %342, %346
  %348 = add nuw nsw i64 %341, 1
  %349 = icmp eq i64 %348, 8
  br i1 %349, label %350, label %340

350:                                              ; preds = %340
  %351 = trunc i32 %347 to i16
  store i16 %351, ptr %132, align 2
  %352 = load i64, ptr %70, align 8
  %353 = add i64 %352, 1
  store i64 %353, ptr %70, align 8
  %354 = load i16, ptr %132, align 2
  %355 = zext i16 %354 to i64
  %356 = load i64, ptr %71, align 8
  %357 = add i64 %356, %355
  store i64 %357, ptr %71, align 8
  %358 = getelementptr inbounds i8, ptr %332, i64 24
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(72) %358, i8 0, i64 72, i1 false)
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %11) #12
  br label %359

359:                                              ; preds = %320, %350
  %360 = phi ptr [ %330, %350 ], [ %323, %320 ]
  %361 = getelementptr inbounds i8, ptr %360, i64 -16
  %362 = getelementptr inbounds i8, ptr %360, i64 16
  store ptr %145, ptr %362, align 8
  store ptr %361, ptr %245, align 8
  %363 = getelementptr inbounds i8, ptr %360, i64 8
  %364 = load ptr, ptr %363, align 8
  %365 = load ptr, ptr %360, align 8
  %366 = getelementptr inbounds i8, ptr %365, i64 8
  store ptr %364, ptr %366, align 8
  %367 = load ptr, ptr %360, align 8
  %368 = load ptr, ptr %363, align 8
  store ptr %367, ptr %368, align 8
  %369 = load ptr, ptr %73, align 8
  store ptr %360, ptr %73, align 8
  store ptr %72, ptr %360, align 8
  store ptr %369, ptr %363, align 8
  store ptr %360, ptr %369, align 8
  %370 = getelementptr inbounds i8, ptr %360, i64 32
  %371 = load i32, ptr %370, align 8
  %372 = icmp ne i32 %371, 1
  %373 = zext i1 %372 to i64
  %374 = getelementptr inbounds i8, ptr %360, i64 24
  %375 = load i64, ptr %374, align 8
  %376 = add i64 %375, %373
  store i64 %376, ptr %374, align 8
  store i32 1, ptr %370, align 8
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %10) #12
  store i64 %74, ptr %10, align 16
  %377 = ptrtoint ptr %361 to i64
  store i64 %377, ptr %75, align 8
  call void @llvm.lifetime.start.p0(i64 28, ptr nonnull %8)
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(24) %125, i8 0, i64 24, i1 false)
  store ptr %62, ptr %77, align 8
  store ptr %361, ptr %78, align 8
  store i64 %74, ptr %79, align 8
  store i64 %377, ptr %80, align 8
  store i64 %376, ptr %81, align 8
  store i32 1, ptr %82, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(28) %83, ptr noundef nonnull align 4 dereferenceable(28) %8, i64 28, i1 false)
  call void @llvm.lifetime.end.p0(i64 28, ptr nonnull %8)
  store i64 %84, ptr %76, align 16
  %378 = call i64 @policy_gpu_block_activate(ptr noundef nonnull %10) #13
  %379 = load i64, ptr %86, align 8
  %380 = icmp eq i64 %379, 1
  %381 = load i64, ptr %87, align 8
  %382 = select i1 %380, ptr %72, ptr %88
  %383 = load i8, ptr %85, align 8
  %384 = icmp eq i8 %383, 0
  br i1 %384, label %421, label %385

385:                                              ; preds = %359
  %386 = load i8, ptr %89, align 1
  %387 = icmp eq i8 %386, 0
  %388 = add i64 %379, -1
  %389 = icmp ult i64 %388, 2
  %390 = select i1 %387, i1 %389, i1 false
  br i1 %390, label %391, label %392

391:                                              ; preds = %385
  switch i64 %381, label %392 [
    i64 1, label %395
    i64 2, label %403
  ]

392:                                              ; preds = %391, %385
  %393 = load i64, ptr %18, align 8
  %394 = add i64 %393, 1
  store i64 %394, ptr %18, align 8
  br label %421

395:                                              ; preds = %391
  %396 = load ptr, ptr %363, align 8
  %397 = load ptr, ptr %360, align 8
  %398 = getelementptr inbounds i8, ptr %397, i64 8
  store ptr %396, ptr %398, align 8
  %399 = load ptr, ptr %360, align 8
  %400 = load ptr, ptr %363, align 8
  store ptr %399, ptr %400, align 8
  %401 = load ptr, ptr %382, align 8
  %402 = getelementptr inbounds i8, ptr %401, i64 8
  br label %411

403:                                              ; preds = %391
  %404 = load ptr, ptr %363, align 8
  %405 = load ptr, ptr %360, align 8
  %406 = getelementptr inbounds i8, ptr %405, i64 8
  store ptr %404, ptr %406, align 8
  %407 = load ptr, ptr %360, align 8
  %408 = load ptr, ptr %363, align 8
  store ptr %407, ptr %408, align 8
  %409 = getelementptr inbounds i8, ptr %382, i64 8
  %410 = load ptr, ptr %409, align 8
  br label %411

411:                                              ; preds = %403, %395
  %412 = phi ptr [ %409, %403 ], [ %402, %395 ]
  %413 = phi ptr [ %382, %403 ], [ %401, %395 ]
  %414 = phi ptr [ %410, %403 ], [ %382, %395 ]
  store ptr %360, ptr %412, align 8
  store ptr %413, ptr %360, align 8
  store ptr %414, ptr %363, align 8
  store ptr %360, ptr %414, align 8
  %415 = select i1 %380, i32 1, i32 2
  %416 = load i32, ptr %370, align 8
  %417 = icmp ne i32 %416, %415
  %418 = zext i1 %417 to i64
  %419 = load i64, ptr %374, align 8
  %420 = add i64 %419, %418
  store i64 %420, ptr %374, align 8
  store i32 %415, ptr %370, align 8
  br label %421

421:                                              ; preds = %359, %392, %411
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %10) #12
  br label %422

422:                                              ; preds = %421, %319
  %423 = and i64 %142, 63
  %424 = xor i64 %423, 63
  %425 = lshr i64 -1, %424
  br label %426

426:                                              ; preds = %422, %426
  %427 = phi i32 [ 0, %422 ], [ %444, %426 ]
  %428 = phi i32 [ %147, %422 ], [ %446, %426 ]
  %429 = or i32 %428, 63
  %430 = icmp ugt i32 %429, %147
  %431 = and i32 %428, 63
  %432 = zext nneg i32 %431 to i64
  %433 = shl nsw i64 -1, %432
  %434 = select i1 %430, i64 %425, i64 -1
  %435 = and i64 %433, %434
  %436 = lshr i32 %428, 6
  %437 = zext nneg i32 %436 to i64
  %438 = getelementptr inbounds [8 x i64], ptr %150, i64 0, i64 %437
  %439 = load i64, ptr %438, align 8
  %440 = xor i64 %439, -1
  %441 = and i64 %435, %440
  %442 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %441)
  %443 = trunc nuw nsw i64 %442 to i32
  %444 = add i32 %427, %443
  %445 = or i64 %439, %435
  store i64 %445, ptr %438, align 8
  %446 = add nuw nsw i32 %429, 1
  %447 = icmp ult i32 %429, %147
  br i1 %447, label %426, label %448

448:                                              ; preds = %426
  %449 = load i16, ptr %131, align 4
  %450 = trunc i32 %444 to i16
  %451 = add i16 %449, %450
  store i16 %451, ptr %131, align 4
  %452 = zext i32 %444 to i64
  %453 = load i64, ptr %90, align 8
  %454 = add i64 %453, %452
  store i64 %454, ptr %90, align 8
  call void @llvm.lifetime.start.p0(i64 32, ptr nonnull %9) #12
  %455 = and i64 %142, 511
  store i64 %455, ptr %9, align 16
  store i64 %93, ptr %91, align 8
  store i64 %96, ptr %94, align 16
  store i64 %99, ptr %97, align 8
  %456 = ptrtoint ptr %145 to i64
  store i64 %456, ptr %100, align 8
  %457 = call i64 @policy_uvm_perf_prefetch_get_hint_va_block(ptr noundef nonnull %101) #13
  call void @llvm.memmove.p0.p0.i64(ptr noundef nonnull align 8 dereferenceable(64) %92, ptr noundef nonnull align 8 dereferenceable(64) %150, i64 64, i1 false)
  store i16 0, ptr %102, align 8
  store i16 512, ptr %103, align 2
  store i8 10, ptr %104, align 4
  store i16 0, ptr %95, align 8
  store i16 512, ptr %105, align 2
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(24) %98, i8 0, i64 24, i1 false)
  %458 = call i64 @policy_gpu_page_prefetch(ptr noundef nonnull %9) #13
  %459 = trunc i64 %458 to i32
  switch i32 %459, label %578 [
    i32 0, label %581
    i32 2, label %460
    i32 1, label %549
  ]

460:                                              ; preds = %448, %539
  %461 = phi i16 [ %541, %539 ], [ 0, %448 ]
  %462 = phi i16 [ %540, %539 ], [ 0, %448 ]
  %463 = phi i32 [ %542, %539 ], [ %459, %448 ]
  %464 = sub nsw i32 0, %463
  %465 = and i32 %147, %464
  %466 = icmp ult i32 %463, 64
  %467 = lshr i32 %465, 6
  br i1 %466, label %468, label %481

468:                                              ; preds = %460
  %469 = zext nneg i32 %467 to i64
  %470 = getelementptr inbounds [8 x i64], ptr %92, i64 0, i64 %469
  %471 = load i64, ptr %470, align 8
  %472 = and i32 %465, 62
  %473 = zext nneg i32 %472 to i64
  %474 = lshr i64 %471, %473
  %475 = zext nneg i32 %463 to i64
  %476 = shl nsw i64 -1, %475
  %477 = xor i64 %476, -1
  %478 = and i64 %474, %477
  %479 = call range(i64 0, 64) i64 @llvm.ctpop.i64(i64 %478)
  %480 = trunc nuw nsw i64 %479 to i32
  br label %501

481:                                              ; preds = %460
  %482 = add nuw nsw i32 %465, %463
  %483 = lshr i32 %482, 6
  %484 = icmp ult i32 %467, %483
  br i1 %484, label %485, label %501

485:                                              ; preds = %481
  %486 = lshr i32 %465, 6
  %487 = zext nneg i32 %486 to i64
  %488 = add nuw nsw i32 %483, %486
  %489 = sub nsw i32 %488, %467
  %490 = zext i32 %489 to i64
  br label %491

491:                                              ; preds = %485, %491
  %492 = phi i64 [ %487, %485 ], [ %499, %491 ]
  %493 = phi i32 [ 0, %485 ], [ %498, %491 ]
  %494 = getelementptr inbounds [8 x i64], ptr %92, i64 0, i64 %492
  %495 = load i64, ptr %494, align 8
  %496 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %495)
  %497 = trunc nuw nsw i64 %496 to i32
  %498 = add i32 %493, %497
  %499 = add nuw nsw i64 %492, 1
  %500 = icmp eq i64 %499, %490
  br i1 %500, label %501, label %491

501:                                              ; preds = %491, %481, %468
  %502 = phi i32 [ %480, %468 ], [ 0, %481 ], [ %498, %491 ]
  %503 = trunc nuw nsw i32 %465 to i16
  %504 = add nuw nsw i32 %465, %463
  %505 = trunc nuw i32 %504 to i16
  store i16 %503, ptr %111, align 4
  store i16 %505, ptr %112, align 2
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(24) %98, i8 0, i64 24, i1 false)
  call void @llvm.lifetime.start.p0(i64 40, ptr nonnull %5) #12
  store i64 %93, ptr %5, align 16
  store i64 %96, ptr %113, align 8
  store i64 %115, ptr %114, align 16
  %506 = zext i32 %502 to i64
  store i64 %506, ptr %116, align 8
  store i64 %99, ptr %117, align 16
  %507 = call i64 @policy_gpu_page_prefetch_iter(ptr noundef nonnull %5) #13
  %508 = and i64 %507, 4294967295
  %509 = icmp eq i64 %508, 1
  br i1 %509, label %510, label %539

510:                                              ; preds = %501
  %511 = load i64, ptr %118, align 8
  %512 = icmp eq i64 %511, 0
  br i1 %512, label %513, label %516

513:                                              ; preds = %510
  %514 = load i64, ptr %119, align 8
  %515 = icmp eq i64 %514, 0
  br label %516

516:                                              ; preds = %513, %510
  %517 = phi i1 [ false, %510 ], [ %515, %513 ]
  %518 = load i8, ptr %98, align 8
  %519 = icmp eq i8 %518, 0
  br i1 %519, label %536, label %520

520:                                              ; preds = %516
  %521 = load i8, ptr %120, align 1
  %522 = icmp ne i8 %521, 0
  %523 = select i1 %522, i1 true, i1 %517
  %524 = xor i1 %522, true
  br i1 %523, label %530, label %525

525:                                              ; preds = %520
  %526 = load i64, ptr %121, align 8
  %527 = icmp ult i64 %511, %526
  %528 = icmp ult i64 %526, 513
  %529 = and i1 %527, %528
  br label %530

530:                                              ; preds = %520, %525
  %531 = phi i1 [ %524, %520 ], [ %529, %525 ]
  br i1 %531, label %532, label %536

532:                                              ; preds = %530
  %533 = load i64, ptr %122, align 8
  %534 = trunc i64 %533 to i16
  %535 = trunc i64 %511 to i16
  br label %539

536:                                              ; preds = %516, %530
  %537 = load i64, ptr %18, align 8
  %538 = add i64 %537, 1
  store i64 %538, ptr %18, align 8
  br label %539

539:                                              ; preds = %536, %532, %501
  %540 = phi i16 [ %462, %501 ], [ %534, %532 ], [ %462, %536 ]
  %541 = phi i16 [ %461, %501 ], [ %535, %532 ], [ %461, %536 ]
  call void @llvm.lifetime.end.p0(i64 40, ptr nonnull %5) #12
  %542 = shl nuw nsw i32 %463, 1
  %543 = icmp ult i32 %463, 257
  br i1 %543, label %460, label %544

544:                                              ; preds = %539
  %545 = zext i16 %540 to i32
  %546 = shl nuw i32 %545, 16
  %547 = zext i16 %541 to i32
  %548 = or disjoint i32 %546, %547
  br label %640

549:                                              ; preds = %448
  %550 = load i64, ptr %106, align 8
  %551 = icmp eq i64 %550, 0
  br i1 %551, label %552, label %555

552:                                              ; preds = %549
  %553 = load i64, ptr %107, align 8
  %554 = icmp eq i64 %553, 0
  br label %555

555:                                              ; preds = %552, %549
  %556 = phi i1 [ false, %549 ], [ %554, %552 ]
  %557 = load i8, ptr %98, align 8
  %558 = icmp eq i8 %557, 0
  br i1 %558, label %578, label %559

559:                                              ; preds = %555
  %560 = load i8, ptr %108, align 1
  %561 = icmp ne i8 %560, 0
  %562 = select i1 %561, i1 true, i1 %556
  %563 = xor i1 %561, true
  br i1 %562, label %569, label %564

564:                                              ; preds = %559
  %565 = load i64, ptr %109, align 8
  %566 = icmp ult i64 %550, %565
  %567 = icmp ult i64 %565, 513
  %568 = and i1 %566, %567
  br label %569

569:                                              ; preds = %559, %564
  %570 = phi i1 [ %563, %559 ], [ %568, %564 ]
  br i1 %570, label %571, label %578

571:                                              ; preds = %569
  %572 = trunc i64 %550 to i32
  %573 = load i64, ptr %110, align 8
  %574 = trunc i64 %573 to i32
  %575 = shl i32 %574, 16
  %576 = and i32 %572, 65535
  %577 = or disjoint i32 %575, %576
  br label %640

578:                                              ; preds = %555, %569, %448
  %579 = load i64, ptr %18, align 8
  %580 = add i64 %579, 1
  store i64 %580, ptr %18, align 8
  br label %581

581:                                              ; preds = %578, %448
  br label %582

582:                                              ; preds = %581, %623
  %583 = phi i16 [ %632, %623 ], [ 0, %581 ]
  %584 = phi i16 [ %631, %623 ], [ 0, %581 ]
  %585 = phi i32 [ %633, %623 ], [ 2, %581 ]
  %586 = sub nsw i32 0, %585
  %587 = and i32 %147, %586
  %588 = icmp ult i32 %585, 64
  %589 = lshr i32 %587, 6
  br i1 %588, label %590, label %603

590:                                              ; preds = %582
  %591 = zext nneg i32 %589 to i64
  %592 = getelementptr inbounds [8 x i64], ptr %92, i64 0, i64 %591
  %593 = load i64, ptr %592, align 8
  %594 = and i32 %587, 62
  %595 = zext nneg i32 %594 to i64
  %596 = lshr i64 %593, %595
  %597 = zext nneg i32 %585 to i64
  %598 = shl nsw i64 -1, %597
  %599 = xor i64 %598, -1
  %600 = and i64 %596, %599
  %601 = call range(i64 0, 64) i64 @llvm.ctpop.i64(i64 %600)
  %602 = trunc nuw nsw i64 %601 to i32
  br label %623

603:                                              ; preds = %582
  %604 = add nuw nsw i32 %587, %585
  %605 = lshr i32 %604, 6
  %606 = icmp ult i32 %589, %605
  br i1 %606, label %607, label %623

607:                                              ; preds = %603
  %608 = lshr i32 %587, 6
  %609 = zext nneg i32 %608 to i64
  %610 = add nuw nsw i32 %605, %608
  %611 = sub nsw i32 %610, %589
  %612 = zext i32 %611 to i64
  br label %613

613:                                              ; preds = %607, %613
  %614 = phi i64 [ %609, %607 ], [ %621, %613 ]
  %615 = phi i32 [ 0, %607 ], [ %620, %613 ]
  %616 = getelementptr inbounds [8 x i64], ptr %92, i64 0, i64 %614
  %617 = load i64, ptr %616, align 8
  %618 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %617)
  %619 = trunc nuw nsw i64 %618 to i32
  %620 = add i32 %615, %619
  %621 = add nuw nsw i64 %614, 1
  %622 = icmp eq i64 %621, %612
  br i1 %622, label %623, label %613

623:                                              ; preds = %613, %603, %590
  %624 = phi i32 [ %602, %590 ], [ 0, %603 ], [ %620, %613 ]
  %625 = trunc nuw nsw i32 %587 to i16
  %626 = add nuw nsw i32 %587, %585
  %627 = trunc nuw i32 %626 to i16
  %628 = mul i32 %624, 100
  %629 = mul nuw nsw i32 %585, 51
  %630 = icmp ugt i32 %628, %629
  %631 = select i1 %630, i16 %627, i16 %584
  %632 = select i1 %630, i16 %625, i16 %583
  %633 = shl nuw nsw i32 %585, 1
  %634 = icmp ult i32 %585, 257
  br i1 %634, label %582, label %635

635:                                              ; preds = %623
  %636 = zext i16 %631 to i32
  %637 = shl nuw i32 %636, 16
  %638 = zext nneg i16 %632 to i32
  %639 = or disjoint i32 %637, %638
  br label %640

640:                                              ; preds = %544, %571, %635
  %641 = phi i32 [ %639, %635 ], [ %577, %571 ], [ %548, %544 ]
  call void @llvm.lifetime.end.p0(i64 32, ptr nonnull %9) #12
  %642 = lshr i32 %641, 16
  %643 = and i32 %641, 65535
  %644 = icmp ult i32 %643, %642
  br i1 %644, label %645, label %673

645:                                              ; preds = %640
  %646 = add nuw nsw i32 %642, 63
  %647 = and i32 %646, 63
  %648 = xor i32 %647, 63
  br label %649

649:                                              ; preds = %645, %649
  %650 = phi i32 [ 0, %645 ], [ %669, %649 ]
  %651 = phi i32 [ %643, %645 ], [ %671, %649 ]
  %652 = or i32 %651, 63
  %653 = icmp ult i32 %652, %642
  %654 = and i32 %651, 63
  %655 = zext nneg i32 %654 to i64
  %656 = shl nsw i64 -1, %655
  %657 = select i1 %653, i32 0, i32 %648
  %658 = zext nneg i32 %657 to i64
  %659 = lshr i64 -1, %658
  %660 = and i64 %659, %656
  %661 = lshr i32 %651, 6
  %662 = zext nneg i32 %661 to i64
  %663 = getelementptr inbounds [8 x i64], ptr %150, i64 0, i64 %662
  %664 = load i64, ptr %663, align 8
  %665 = xor i64 %664, -1
  %666 = and i64 %660, %665
  %667 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %666)
  %668 = trunc nuw nsw i64 %667 to i32
  %669 = add i32 %650, %668
  %670 = or i64 %664, %660
  store i64 %670, ptr %663, align 8
  %671 = add nuw nsw i32 %652, 1
  %672 = icmp ult i32 %671, %642
  br i1 %672, label %649, label %673

673:                                              ; preds = %649, %640
  %674 = phi i32 [ 0, %640 ], [ %669, %649 ]
  %675 = load i16, ptr %131, align 4
  %676 = trunc i32 %674 to i16
  %677 = add i16 %675, %676
  store i16 %677, ptr %131, align 4
  %678 = zext i32 %674 to i64
  %679 = load i64, ptr %90, align 8
  %680 = add i64 %679, %678
  store i64 %680, ptr %90, align 8
  br label %681

681:                                              ; preds = %159, %235, %673
  %682 = load i64, ptr %18, align 8
  %683 = sub i64 %682, %129
  %684 = call i64 @llvm.umin.i64(i64 %683, i64 255)
  %685 = trunc nuw i64 %684 to i8
  store i8 %685, ptr %134, align 1
  %686 = add nuw i64 %128, 1
  %687 = icmp eq i64 %686, %2
  br i1 %687, label %126, label %127
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias nocapture writeonly, ptr noalias nocapture readonly, i64, i1 immarg) #6

define dso_local void @model_task(i64 noundef %0, i64 noundef %1, i64 noundef %2, ptr nocapture noundef writeonly %3) local_unnamed_addr #5 {
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
  store i32 0, ptr %15, align 8
  %16 = getelementptr inbounds i8, ptr %8, i64 368
  store i64 %1, ptr %16, align 8
  %17 = getelementptr inbounds i8, ptr %8, i64 376
  store i32 %14, ptr %17, align 8
  %18 = getelementptr inbounds i8, ptr %8, i64 380
  store i32 0, ptr %18, align 4
  %19 = getelementptr inbounds i8, ptr %8, i64 384
  store i64 %1, ptr %19, align 8
  %20 = getelementptr inbounds i8, ptr %8, i64 392
  store i32 %14, ptr %20, align 8
  %21 = ptrtoint ptr %13 to i64
  store i64 %21, ptr %5, align 8
  %22 = call i64 @policy_on_task_init(ptr noundef nonnull %5) #13
  %23 = getelementptr inbounds i8, ptr %8, i64 400
  %24 = load i64, ptr %19, align 8
  %25 = load i32, ptr %20, align 8
  store i64 %0, ptr %23, align 8
  %26 = getelementptr inbounds i8, ptr %8, i64 408
  store i32 0, ptr %26, align 8
  %27 = getelementptr inbounds i8, ptr %8, i64 412
  store i32 1, ptr %27, align 4
  %28 = getelementptr inbounds i8, ptr %8, i64 416
  store i64 %24, ptr %28, align 8
  %29 = getelementptr inbounds i8, ptr %8, i64 424
  store i32 %25, ptr %29, align 8
  %30 = getelementptr inbounds i8, ptr %8, i64 428
  store i32 1, ptr %30, align 4
  %31 = ptrtoint ptr %23 to i64
  store i64 %31, ptr %6, align 8
  %32 = call i64 @policy_on_bind(ptr noundef nonnull %6) #13
  %33 = load i64, ptr %19, align 8
  store i64 %33, ptr %3, align 8
  %34 = load i32, ptr %20, align 8
  %35 = zext i32 %34 to i64
  %36 = getelementptr inbounds i8, ptr %3, i64 8
  store i64 %35, ptr %36, align 8
  %37 = load i32, ptr %30, align 4
  %38 = icmp ne i32 %37, 0
  %39 = zext i1 %38 to i64
  %40 = getelementptr inbounds i8, ptr %3, i64 16
  store i64 %39, ptr %40, align 8
  ret void
}

declare i64 @policy_on_task_init(ptr noundef) local_unnamed_addr #7

declare i64 @policy_on_bind(ptr noundef) local_unnamed_addr #7

define dso_local void @model_task_end(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3) local_unnamed_addr #5 {
  %5 = alloca [1 x i64], align 8
  %6 = load i64, ptr @accel_arena, align 8
  %7 = inttoptr i64 %6 to ptr
  %8 = getelementptr inbounds i8, ptr %7, i64 104
  %9 = load ptr, ptr %8, align 8
  %10 = getelementptr inbounds %struct.tenant, ptr %9, i64 %0
  %11 = getelementptr inbounds i8, ptr %7, i64 112
  store ptr %10, ptr %11, align 8
  %12 = getelementptr inbounds i8, ptr %7, i64 432
  store i64 %0, ptr %12, align 8
  %13 = ptrtoint ptr %12 to i64
  store i64 %13, ptr %5, align 8
  %14 = call i64 @policy_on_task_destroy(ptr noundef nonnull %5) #13
  ret void
}

declare i64 @policy_on_task_destroy(ptr noundef) local_unnamed_addr #7

declare i64 @policy_gpu_block_access(ptr noundef) local_unnamed_addr #7

declare void @llvm.memset.p0.i64(ptr nocapture writeonly, i8, i64, i1 immarg) #8

declare i64 @policy_gpu_evict_prepare(ptr noundef) local_unnamed_addr #7

declare i64 @llvm.ctpop.i64(i64) #9

declare i64 @policy_gpu_block_activate(ptr noundef) local_unnamed_addr #7

declare i64 @policy_uvm_perf_prefetch_get_hint_va_block(ptr noundef) local_unnamed_addr #7

declare i64 @policy_gpu_page_prefetch(ptr noundef) local_unnamed_addr #7

declare i64 @policy_gpu_page_prefetch_iter(ptr noundef) local_unnamed_addr #7

declare i64 @llvm.umin.i64(i64, i64) #10

declare void @llvm.memmove.p0.p0.i64(ptr nocapture writeonly, ptr nocapture readonly, i64, i1 immarg) #11

attributes #0 = { mustprogress nofree norecurse nosync nounwind willreturn memory(none) "no-builtins" }
attributes #1 = { mustprogress nofree norecurse nosync nounwind willreturn memory(readwrite, inaccessiblemem: none) "no-builtins" }
attributes #2 = { mustprogress nocallback nofree nosync nounwind willreturn memory(argmem: readwrite) }
attributes #3 = { nofree norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) "no-builtins" }
attributes #4 = { mustprogress nofree norecurse nosync nounwind willreturn memory(write, inaccessiblemem: none) "no-builtins" }
attributes #5 = { nounwind "no-builtins" }
attributes #6 = { mustprogress nocallback nofree nounwind willreturn memory(argmem: readwrite) }
attributes #7 = { "no-builtins" }
attributes #8 = { mustprogress nocallback nofree nounwind willreturn memory(argmem: write) }
attributes #9 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #10 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #11 = { nocallback nofree nounwind willreturn memory(argmem: readwrite) }
attributes #12 = { nounwind }
attributes #13 = { nobuiltin nounwind "no-builtins" }
