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

define dso_local void @model_run(ptr nocapture noundef readonly %0, ptr nocapture noundef readonly %1, i64 noundef %2, ptr nocapture noundef %3) local_unnamed_addr #4 {
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
  %100 = getelementptr inbounds i8, ptr %17, i64 464
  %101 = getelementptr inbounds i8, ptr %17, i64 352
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

126:                                              ; preds = %718, %4
  ret void

127:                                              ; preds = %15, %718
  %128 = phi i64 [ 0, %15 ], [ %723, %718 ]
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
  br i1 %161, label %718, label %162

162:                                              ; preds = %159
  %163 = getelementptr inbounds i8, ptr %145, i64 24
  %164 = load ptr, ptr %163, align 8
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %12) #11
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
  %170 = call i64 @policy_gpu_block_access(ptr noundef nonnull %12) #12
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
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %12) #11
  br label %718

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
  br i1 %247, label %321, label %248

248:                                              ; preds = %244
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %13) #11
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
  %254 = call i64 @policy_gpu_block_access(ptr noundef nonnull %13) #12
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
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %13) #11
  br label %320

320:                                              ; preds = %422, %319
  br label %426

321:                                              ; preds = %244
  %322 = load i64, ptr %61, align 8
  %323 = add i64 %322, 1
  store i64 %323, ptr %61, align 8
  store i8 2, ptr %133, align 4
  %324 = load ptr, ptr %62, align 8
  %325 = icmp eq ptr %324, %62
  br i1 %325, label %326, label %360

326:                                              ; preds = %321
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %11) #11
  store i64 %65, ptr %11, align 16
  store i64 %67, ptr %66, align 8
  store i64 %69, ptr %68, align 16
  %327 = call i64 @policy_gpu_evict_prepare(ptr noundef nonnull %11) #12
  %328 = load ptr, ptr %64, align 8
  %329 = icmp eq ptr %328, %64
  %330 = select i1 %329, ptr %63, ptr %64
  %331 = load ptr, ptr %330, align 8
  %332 = getelementptr inbounds i8, ptr %331, i64 16
  %333 = load ptr, ptr %332, align 8
  %334 = load ptr, ptr %21, align 8
  %335 = ptrtoint ptr %333 to i64
  %336 = ptrtoint ptr %334 to i64
  %337 = sub i64 %335, %336
  %338 = sdiv exact i64 %337, 96
  %339 = trunc i64 %338 to i32
  store i32 %339, ptr %130, align 4
  %340 = getelementptr inbounds i8, ptr %333, i64 32
  br label %341

341:                                              ; preds = %326, %341
  %342 = phi i64 [ 0, %326 ], [ %349, %341 ]
  %343 = phi i32 [ 0, %326 ], [ %348, %341 ]
  %344 = getelementptr inbounds [8 x i64], ptr %340, i64 0, i64 %342
  %345 = load i64, ptr %344, align 8
  %346 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %345)
  %347 = trunc nuw nsw i64 %346 to i32
  %348 = add i32 %343, %347
  %349 = add nuw nsw i64 %342, 1
  %350 = icmp eq i64 %349, 8
  br i1 %350, label %351, label %341

351:                                              ; preds = %341
  %352 = trunc i32 %348 to i16
  store i16 %352, ptr %132, align 2
  %353 = load i64, ptr %70, align 8
  %354 = add i64 %353, 1
  store i64 %354, ptr %70, align 8
  %355 = load i16, ptr %132, align 2
  %356 = zext i16 %355 to i64
  %357 = load i64, ptr %71, align 8
  %358 = add i64 %357, %356
  store i64 %358, ptr %71, align 8
  %359 = getelementptr inbounds i8, ptr %333, i64 24
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(72) %359, i8 0, i64 72, i1 false)
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %11) #11
  br label %360

360:                                              ; preds = %321, %351
  %361 = phi ptr [ %331, %351 ], [ %324, %321 ]
  %362 = getelementptr inbounds i8, ptr %361, i64 -16
  %363 = getelementptr inbounds i8, ptr %361, i64 16
  store ptr %145, ptr %363, align 8
  store ptr %362, ptr %245, align 8
  %364 = getelementptr inbounds i8, ptr %361, i64 8
  %365 = load ptr, ptr %364, align 8
  %366 = load ptr, ptr %361, align 8
  %367 = getelementptr inbounds i8, ptr %366, i64 8
  store ptr %365, ptr %367, align 8
  %368 = load ptr, ptr %361, align 8
  %369 = load ptr, ptr %364, align 8
  store ptr %368, ptr %369, align 8
  %370 = load ptr, ptr %73, align 8
  store ptr %361, ptr %73, align 8
  store ptr %72, ptr %361, align 8
  store ptr %370, ptr %364, align 8
  store ptr %361, ptr %370, align 8
  %371 = getelementptr inbounds i8, ptr %361, i64 32
  %372 = load i32, ptr %371, align 8
  %373 = icmp ne i32 %372, 1
  %374 = zext i1 %373 to i64
  %375 = getelementptr inbounds i8, ptr %361, i64 24
  %376 = load i64, ptr %375, align 8
  %377 = add i64 %376, %374
  store i64 %377, ptr %375, align 8
  store i32 1, ptr %371, align 8
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %10) #11
  store i64 %74, ptr %10, align 16
  %378 = ptrtoint ptr %362 to i64
  store i64 %378, ptr %75, align 8
  call void @llvm.lifetime.start.p0(i64 28, ptr nonnull %8)
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 4 dereferenceable(24) %125, i8 0, i64 24, i1 false)
  store ptr %62, ptr %77, align 8
  store ptr %362, ptr %78, align 8
  store i64 %74, ptr %79, align 8
  store i64 %378, ptr %80, align 8
  store i64 %377, ptr %81, align 8
  store i32 1, ptr %82, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 4 dereferenceable(28) %83, ptr noundef nonnull align 4 dereferenceable(28) %8, i64 28, i1 false)
  call void @llvm.lifetime.end.p0(i64 28, ptr nonnull %8)
  store i64 %84, ptr %76, align 16
  %379 = call i64 @policy_gpu_block_activate(ptr noundef nonnull %10) #12
  %380 = load i64, ptr %86, align 8
  %381 = icmp eq i64 %380, 1
  %382 = load i64, ptr %87, align 8
  %383 = select i1 %381, ptr %72, ptr %88
  %384 = load i8, ptr %85, align 8
  %385 = icmp eq i8 %384, 0
  br i1 %385, label %422, label %386

386:                                              ; preds = %360
  %387 = load i8, ptr %89, align 1
  %388 = icmp eq i8 %387, 0
  %389 = add i64 %380, -1
  %390 = icmp ult i64 %389, 2
  %391 = select i1 %388, i1 %390, i1 false
  br i1 %391, label %392, label %393

392:                                              ; preds = %386
  switch i64 %382, label %393 [
    i64 1, label %396
    i64 2, label %404
  ]

393:                                              ; preds = %392, %386
  %394 = load i64, ptr %18, align 8
  %395 = add i64 %394, 1
  store i64 %395, ptr %18, align 8
  br label %422

396:                                              ; preds = %392
  %397 = load ptr, ptr %364, align 8
  %398 = load ptr, ptr %361, align 8
  %399 = getelementptr inbounds i8, ptr %398, i64 8
  store ptr %397, ptr %399, align 8
  %400 = load ptr, ptr %361, align 8
  %401 = load ptr, ptr %364, align 8
  store ptr %400, ptr %401, align 8
  %402 = load ptr, ptr %383, align 8
  %403 = getelementptr inbounds i8, ptr %402, i64 8
  br label %412

404:                                              ; preds = %392
  %405 = load ptr, ptr %364, align 8
  %406 = load ptr, ptr %361, align 8
  %407 = getelementptr inbounds i8, ptr %406, i64 8
  store ptr %405, ptr %407, align 8
  %408 = load ptr, ptr %361, align 8
  %409 = load ptr, ptr %364, align 8
  store ptr %408, ptr %409, align 8
  %410 = getelementptr inbounds i8, ptr %383, i64 8
  %411 = load ptr, ptr %410, align 8
  br label %412

412:                                              ; preds = %404, %396
  %413 = phi ptr [ %410, %404 ], [ %403, %396 ]
  %414 = phi ptr [ %383, %404 ], [ %402, %396 ]
  %415 = phi ptr [ %411, %404 ], [ %383, %396 ]
  store ptr %361, ptr %413, align 8
  store ptr %414, ptr %361, align 8
  store ptr %415, ptr %364, align 8
  store ptr %361, ptr %415, align 8
  %416 = select i1 %381, i32 1, i32 2
  %417 = load i32, ptr %371, align 8
  %418 = icmp ne i32 %417, %416
  %419 = zext i1 %418 to i64
  %420 = load i64, ptr %375, align 8
  %421 = add i64 %420, %419
  store i64 %421, ptr %375, align 8
  store i32 %416, ptr %371, align 8
  br label %422

422:                                              ; preds = %360, %393, %412
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %10) #11
  br label %320

423:                                              ; preds = %426
  %424 = add nuw nsw i32 %147, 1
  %425 = and i64 %142, 511
  br label %436

426:                                              ; preds = %320, %426
  %427 = phi i64 [ %434, %426 ], [ 0, %320 ]
  %428 = phi i32 [ %433, %426 ], [ 0, %320 ]
  %429 = getelementptr inbounds [8 x i64], ptr %150, i64 0, i64 %427
  %430 = load i64, ptr %429, align 8
  %431 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %430)
  %432 = trunc nuw nsw i64 %431 to i32
  %433 = add i32 %428, %432
  %434 = add nuw nsw i64 %427, 1
  %435 = icmp eq i64 %434, 8
  br i1 %435, label %423, label %426

436:                                              ; preds = %423, %456
  %437 = phi i64 [ 0, %423 ], [ %457, %456 ]
  %438 = shl nuw nsw i64 %437, 6
  %439 = sub nsw i64 %425, %438
  %440 = trunc nsw i64 %439 to i32
  %441 = call i32 @llvm.smax.i32(i32 %440, i32 0)
  %442 = trunc i64 %438 to i32
  %443 = sub i32 %424, %442
  %444 = call i32 @llvm.smin.i32(i32 %443, i32 64)
  %445 = icmp slt i32 %441, %444
  br i1 %445, label %446, label %456

446:                                              ; preds = %436
  %447 = sub i32 %441, %444
  %448 = add i32 %447, 64
  %449 = zext nneg i32 %448 to i64
  %450 = lshr i64 -1, %449
  %451 = zext nneg i32 %441 to i64
  %452 = shl i64 %450, %451
  %453 = getelementptr inbounds [8 x i64], ptr %150, i64 0, i64 %437
  %454 = load i64, ptr %453, align 8
  %455 = or i64 %454, %452
  store i64 %455, ptr %453, align 8
  br label %456

456:                                              ; preds = %446, %436
  %457 = add nuw nsw i64 %437, 1
  %458 = icmp eq i64 %457, 8
  br i1 %458, label %459, label %436

459:                                              ; preds = %456, %459
  %460 = phi i64 [ %467, %459 ], [ 0, %456 ]
  %461 = phi i32 [ %466, %459 ], [ 0, %456 ]
  %462 = getelementptr inbounds [8 x i64], ptr %150, i64 0, i64 %460
  %463 = load i64, ptr %462, align 8
  %464 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %463)
  %465 = trunc nuw nsw i64 %464 to i32
  %466 = add i32 %461, %465
  %467 = add nuw nsw i64 %460, 1
  %468 = icmp eq i64 %467, 8
  br i1 %468, label %469, label %459

469:                                              ; preds = %459
  %470 = sub i32 %466, %433
  %471 = load i16, ptr %131, align 4
  %472 = trunc i32 %470 to i16
  %473 = add i16 %471, %472
  store i16 %473, ptr %131, align 4
  %474 = zext i32 %470 to i64
  %475 = load i64, ptr %90, align 8
  %476 = add i64 %475, %474
  store i64 %476, ptr %90, align 8
  call void @llvm.lifetime.start.p0(i64 32, ptr nonnull %9) #11
  %477 = and i64 %142, 511
  store i64 %477, ptr %9, align 16
  store i64 %93, ptr %91, align 8
  store i64 %96, ptr %94, align 16
  store i64 %99, ptr %97, align 8
  %478 = ptrtoint ptr %145 to i64
  store i64 %478, ptr %100, align 8
  %479 = call i64 @policy_uvm_perf_prefetch_get_hint_va_block(ptr noundef nonnull %101) #12
  call void @llvm.memmove.p0.p0.i64(ptr noundef nonnull align 8 dereferenceable(64) %92, ptr noundef nonnull align 8 dereferenceable(64) %150, i64 64, i1 false)
  store i16 0, ptr %102, align 8
  store i16 512, ptr %103, align 2
  store i8 10, ptr %104, align 4
  store i16 0, ptr %95, align 8
  store i16 512, ptr %105, align 2
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(24) %98, i8 0, i64 24, i1 false)
  %480 = call i64 @policy_gpu_page_prefetch(ptr noundef nonnull %9) #12
  %481 = trunc i64 %480 to i32
  switch i32 %481, label %600 [
    i32 0, label %603
    i32 2, label %482
    i32 1, label %571
  ]

482:                                              ; preds = %469, %561
  %483 = phi i16 [ %563, %561 ], [ 0, %469 ]
  %484 = phi i16 [ %562, %561 ], [ 0, %469 ]
  %485 = phi i32 [ %564, %561 ], [ %481, %469 ]
  %486 = sub nsw i32 0, %485
  %487 = and i32 %147, %486
  %488 = icmp ult i32 %485, 64
  %489 = lshr i32 %487, 6
  br i1 %488, label %490, label %503

490:                                              ; preds = %482
  %491 = zext nneg i32 %489 to i64
  %492 = getelementptr inbounds [8 x i64], ptr %92, i64 0, i64 %491
  %493 = load i64, ptr %492, align 8
  %494 = and i32 %487, 62
  %495 = zext nneg i32 %494 to i64
  %496 = lshr i64 %493, %495
  %497 = zext nneg i32 %485 to i64
  %498 = shl nsw i64 -1, %497
  %499 = xor i64 %498, -1
  %500 = and i64 %496, %499
  %501 = call range(i64 0, 64) i64 @llvm.ctpop.i64(i64 %500)
  %502 = trunc nuw nsw i64 %501 to i32
  br label %523

503:                                              ; preds = %482
  %504 = add nuw nsw i32 %487, %485
  %505 = lshr i32 %504, 6
  %506 = icmp ult i32 %489, %505
  br i1 %506, label %507, label %523

507:                                              ; preds = %503
  %508 = lshr i32 %487, 6
  %509 = zext nneg i32 %508 to i64
  %510 = add nuw nsw i32 %505, %508
  %511 = sub nsw i32 %510, %489
  %512 = zext i32 %511 to i64
  br label %513

513:                                              ; preds = %507, %513
  %514 = phi i64 [ %509, %507 ], [ %521, %513 ]
  %515 = phi i32 [ 0, %507 ], [ %520, %513 ]
  %516 = getelementptr inbounds [8 x i64], ptr %92, i64 0, i64 %514
  %517 = load i64, ptr %516, align 8
  %518 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %517)
  %519 = trunc nuw nsw i64 %518 to i32
  %520 = add i32 %515, %519
  %521 = add nuw nsw i64 %514, 1
  %522 = icmp eq i64 %521, %512
  br i1 %522, label %523, label %513

523:                                              ; preds = %513, %503, %490
  %524 = phi i32 [ %502, %490 ], [ 0, %503 ], [ %520, %513 ]
  %525 = trunc nuw nsw i32 %487 to i16
  %526 = add nuw nsw i32 %487, %485
  %527 = trunc nuw i32 %526 to i16
  store i16 %525, ptr %111, align 4
  store i16 %527, ptr %112, align 2
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(24) %98, i8 0, i64 24, i1 false)
  call void @llvm.lifetime.start.p0(i64 40, ptr nonnull %5) #11
  store i64 %93, ptr %5, align 16
  store i64 %96, ptr %113, align 8
  store i64 %115, ptr %114, align 16
  %528 = zext i32 %524 to i64
  store i64 %528, ptr %116, align 8
  store i64 %99, ptr %117, align 16
  %529 = call i64 @policy_gpu_page_prefetch_iter(ptr noundef nonnull %5) #12
  %530 = and i64 %529, 4294967295
  %531 = icmp eq i64 %530, 1
  br i1 %531, label %532, label %561

532:                                              ; preds = %523
  %533 = load i64, ptr %118, align 8
  %534 = icmp eq i64 %533, 0
  br i1 %534, label %535, label %538

535:                                              ; preds = %532
  %536 = load i64, ptr %119, align 8
  %537 = icmp eq i64 %536, 0
  br label %538

538:                                              ; preds = %535, %532
  %539 = phi i1 [ false, %532 ], [ %537, %535 ]
  %540 = load i8, ptr %98, align 8
  %541 = icmp eq i8 %540, 0
  br i1 %541, label %558, label %542

542:                                              ; preds = %538
  %543 = load i8, ptr %120, align 1
  %544 = icmp ne i8 %543, 0
  %545 = select i1 %544, i1 true, i1 %539
  %546 = xor i1 %544, true
  br i1 %545, label %552, label %547

547:                                              ; preds = %542
  %548 = load i64, ptr %121, align 8
  %549 = icmp ult i64 %533, %548
  %550 = icmp ult i64 %548, 513
  %551 = and i1 %549, %550
  br label %552

552:                                              ; preds = %542, %547
  %553 = phi i1 [ %546, %542 ], [ %551, %547 ]
  br i1 %553, label %554, label %558

554:                                              ; preds = %552
  %555 = load i64, ptr %122, align 8
  %556 = trunc i64 %555 to i16
  %557 = trunc i64 %533 to i16
  br label %561

558:                                              ; preds = %538, %552
  %559 = load i64, ptr %18, align 8
  %560 = add i64 %559, 1
  store i64 %560, ptr %18, align 8
  br label %561

561:                                              ; preds = %558, %554, %523
  %562 = phi i16 [ %484, %523 ], [ %556, %554 ], [ %484, %558 ]
  %563 = phi i16 [ %483, %523 ], [ %557, %554 ], [ %483, %558 ]
  call void @llvm.lifetime.end.p0(i64 40, ptr nonnull %5) #11
  %564 = shl nuw nsw i32 %485, 1
  %565 = icmp ult i32 %485, 257
  br i1 %565, label %482, label %566

566:                                              ; preds = %561
  %567 = zext i16 %562 to i32
  %568 = shl nuw i32 %567, 16
  %569 = zext i16 %563 to i32
  %570 = or disjoint i32 %568, %569
  br label %662

571:                                              ; preds = %469
  %572 = load i64, ptr %106, align 8
  %573 = icmp eq i64 %572, 0
  br i1 %573, label %574, label %577

574:                                              ; preds = %571
  %575 = load i64, ptr %107, align 8
  %576 = icmp eq i64 %575, 0
  br label %577

577:                                              ; preds = %574, %571
  %578 = phi i1 [ false, %571 ], [ %576, %574 ]
  %579 = load i8, ptr %98, align 8
  %580 = icmp eq i8 %579, 0
  br i1 %580, label %600, label %581

581:                                              ; preds = %577
  %582 = load i8, ptr %108, align 1
  %583 = icmp ne i8 %582, 0
  %584 = select i1 %583, i1 true, i1 %578
  %585 = xor i1 %583, true
  br i1 %584, label %591, label %586

586:                                              ; preds = %581
  %587 = load i64, ptr %109, align 8
  %588 = icmp ult i64 %572, %587
  %589 = icmp ult i64 %587, 513
  %590 = and i1 %588, %589
  br label %591

591:                                              ; preds = %581, %586
  %592 = phi i1 [ %585, %581 ], [ %590, %586 ]
  br i1 %592, label %593, label %600

593:                                              ; preds = %591
  %594 = trunc i64 %572 to i32
  %595 = load i64, ptr %110, align 8
  %596 = trunc i64 %595 to i32
  %597 = shl i32 %596, 16
  %598 = and i32 %594, 65535
  %599 = or disjoint i32 %597, %598
  br label %662

600:                                              ; preds = %577, %591, %469
  %601 = load i64, ptr %18, align 8
  %602 = add i64 %601, 1
  store i64 %602, ptr %18, align 8
  br label %603

603:                                              ; preds = %600, %469
  br label %604

604:                                              ; preds = %603, %645
  %605 = phi i16 [ %654, %645 ], [ 0, %603 ]
  %606 = phi i16 [ %653, %645 ], [ 0, %603 ]
  %607 = phi i32 [ %655, %645 ], [ 2, %603 ]
  %608 = sub nsw i32 0, %607
  %609 = and i32 %147, %608
  %610 = icmp ult i32 %607, 64
  %611 = lshr i32 %609, 6
  br i1 %610, label %612, label %625

612:                                              ; preds = %604
  %613 = zext nneg i32 %611 to i64
  %614 = getelementptr inbounds [8 x i64], ptr %92, i64 0, i64 %613
  %615 = load i64, ptr %614, align 8
  %616 = and i32 %609, 62
  %617 = zext nneg i32 %616 to i64
  %618 = lshr i64 %615, %617
  %619 = zext nneg i32 %607 to i64
  %620 = shl nsw i64 -1, %619
  %621 = xor i64 %620, -1
  %622 = and i64 %618, %621
  %623 = call range(i64 0, 64) i64 @llvm.ctpop.i64(i64 %622)
  %624 = trunc nuw nsw i64 %623 to i32
  br label %645

625:                                              ; preds = %604
  %626 = add nuw nsw i32 %609, %607
  %627 = lshr i32 %626, 6
  %628 = icmp ult i32 %611, %627
  br i1 %628, label %629, label %645

629:                                              ; preds = %625
  %630 = lshr i32 %609, 6
  %631 = zext nneg i32 %630 to i64
  %632 = add nuw nsw i32 %627, %630
  %633 = sub nsw i32 %632, %611
  %634 = zext i32 %633 to i64
  br label %635

635:                                              ; preds = %629, %635
  %636 = phi i64 [ %631, %629 ], [ %643, %635 ]
  %637 = phi i32 [ 0, %629 ], [ %642, %635 ]
  %638 = getelementptr inbounds [8 x i64], ptr %92, i64 0, i64 %636
  %639 = load i64, ptr %638, align 8
  %640 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %639)
  %641 = trunc nuw nsw i64 %640 to i32
  %642 = add i32 %637, %641
  %643 = add nuw nsw i64 %636, 1
  %644 = icmp eq i64 %643, %634
  br i1 %644, label %645, label %635

645:                                              ; preds = %635, %625, %612
  %646 = phi i32 [ %624, %612 ], [ 0, %625 ], [ %642, %635 ]
  %647 = trunc nuw nsw i32 %609 to i16
  %648 = add nuw nsw i32 %609, %607
  %649 = trunc nuw i32 %648 to i16
  %650 = mul i32 %646, 100
  %651 = mul nuw nsw i32 %607, 51
  %652 = icmp ugt i32 %650, %651
  %653 = select i1 %652, i16 %649, i16 %606
  %654 = select i1 %652, i16 %647, i16 %605
  %655 = shl nuw nsw i32 %607, 1
  %656 = icmp ult i32 %607, 257
  br i1 %656, label %604, label %657

657:                                              ; preds = %645
  %658 = zext i16 %653 to i32
  %659 = shl nuw i32 %658, 16
  %660 = zext nneg i16 %654 to i32
  %661 = or disjoint i32 %659, %660
  br label %662

662:                                              ; preds = %566, %593, %657
  %663 = phi i32 [ %661, %657 ], [ %599, %593 ], [ %570, %566 ]
  call void @llvm.lifetime.end.p0(i64 32, ptr nonnull %9) #11
  br label %667

664:                                              ; preds = %667
  %665 = lshr i32 %663, 16
  %666 = and i32 %663, 65535
  br label %677

667:                                              ; preds = %662, %667
  %668 = phi i64 [ 0, %662 ], [ %675, %667 ]
  %669 = phi i32 [ 0, %662 ], [ %674, %667 ]
  %670 = getelementptr inbounds [8 x i64], ptr %150, i64 0, i64 %668
  %671 = load i64, ptr %670, align 8
  %672 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %671)
  %673 = trunc nuw nsw i64 %672 to i32
  %674 = add i32 %669, %673
  %675 = add nuw nsw i64 %668, 1
  %676 = icmp eq i64 %675, 8
  br i1 %676, label %664, label %667

677:                                              ; preds = %664, %697
  %678 = phi i64 [ 0, %664 ], [ %698, %697 ]
  %679 = shl nuw nsw i64 %678, 6
  %680 = trunc i64 %679 to i32
  %681 = sub i32 %666, %680
  %682 = call i32 @llvm.smax.i32(i32 %681, i32 0)
  %683 = trunc i64 %679 to i32
  %684 = sub i32 %665, %683
  %685 = call i32 @llvm.smin.i32(i32 %684, i32 64)
  %686 = icmp slt i32 %682, %685
  br i1 %686, label %687, label %697

687:                                              ; preds = %677
  %688 = sub i32 %682, %685
  %689 = add i32 %688, 64
  %690 = zext nneg i32 %689 to i64
  %691 = lshr i64 -1, %690
  %692 = zext nneg i32 %682 to i64
  %693 = shl i64 %691, %692
  %694 = getelementptr inbounds [8 x i64], ptr %150, i64 0, i64 %678
  %695 = load i64, ptr %694, align 8
  %696 = or i64 %695, %693
  store i64 %696, ptr %694, align 8
  br label %697

697:                                              ; preds = %687, %677
  %698 = add nuw nsw i64 %678, 1
  %699 = icmp eq i64 %698, 8
  br i1 %699, label %700, label %677

700:                                              ; preds = %697, %700
  %701 = phi i64 [ %708, %700 ], [ 0, %697 ]
  %702 = phi i32 [ %707, %700 ], [ 0, %697 ]
  %703 = getelementptr inbounds [8 x i64], ptr %150, i64 0, i64 %701
  %704 = load i64, ptr %703, align 8
  %705 = call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %704)
  %706 = trunc nuw nsw i64 %705 to i32
  %707 = add i32 %702, %706
  %708 = add nuw nsw i64 %701, 1
  %709 = icmp eq i64 %708, 8
  br i1 %709, label %710, label %700

710:                                              ; preds = %700
  %711 = sub i32 %707, %674
  %712 = load i16, ptr %131, align 4
  %713 = trunc i32 %711 to i16
  %714 = add i16 %712, %713
  store i16 %714, ptr %131, align 4
  %715 = zext i32 %711 to i64
  %716 = load i64, ptr %90, align 8
  %717 = add i64 %716, %715
  store i64 %717, ptr %90, align 8
  br label %718

718:                                              ; preds = %159, %235, %710
  %719 = load i64, ptr %18, align 8
  %720 = sub i64 %719, %129
  %721 = call i64 @llvm.umin.i64(i64 %720, i64 255)
  %722 = trunc nuw i64 %721 to i8
  store i8 %722, ptr %134, align 1
  %723 = add nuw i64 %128, 1
  %724 = icmp eq i64 %723, %2
  br i1 %724, label %126, label %127
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias nocapture writeonly, ptr noalias nocapture readonly, i64, i1 immarg) #5

declare i64 @policy_gpu_block_access(ptr noundef) local_unnamed_addr #6

declare void @llvm.memset.p0.i64(ptr nocapture writeonly, i8, i64, i1 immarg) #7

declare i64 @policy_gpu_evict_prepare(ptr noundef) local_unnamed_addr #6

declare i64 @llvm.ctpop.i64(i64) #8

declare i64 @policy_gpu_block_activate(ptr noundef) local_unnamed_addr #6

declare i64 @policy_uvm_perf_prefetch_get_hint_va_block(ptr noundef) local_unnamed_addr #6

declare i64 @policy_gpu_page_prefetch(ptr noundef) local_unnamed_addr #6

declare i64 @policy_gpu_page_prefetch_iter(ptr noundef) local_unnamed_addr #6

declare i64 @llvm.umin.i64(i64, i64) #9

declare i32 @llvm.smax.i32(i32, i32) #9

declare i32 @llvm.smin.i32(i32, i32) #9

declare void @llvm.memmove.p0.p0.i64(ptr nocapture writeonly, ptr nocapture readonly, i64, i1 immarg) #10

attributes #0 = { mustprogress nofree norecurse nosync nounwind willreturn memory(none) "no-builtins" }
attributes #1 = { mustprogress nofree norecurse nosync nounwind willreturn memory(readwrite, inaccessiblemem: none) "no-builtins" }
attributes #2 = { mustprogress nocallback nofree nosync nounwind willreturn memory(argmem: readwrite) }
attributes #3 = { nofree norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) "no-builtins" }
attributes #4 = { nounwind "no-builtins" }
attributes #5 = { mustprogress nocallback nofree nounwind willreturn memory(argmem: readwrite) }
attributes #6 = { "no-builtins" }
attributes #7 = { mustprogress nocallback nofree nounwind willreturn memory(argmem: write) }
attributes #8 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #9 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #10 = { nocallback nofree nounwind willreturn memory(argmem: readwrite) }
attributes #11 = { nounwind }
attributes #12 = { nobuiltin nounwind "no-builtins" }
