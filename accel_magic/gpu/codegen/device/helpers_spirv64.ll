; LLVM IR of helpers.c for spirv64: written by tools/build_gpu_helpers, not by hand.

%struct.accel_map = type { i32, i32, i32, i32, i64, i64 }
%struct.search = type { i64, i64, i64 }
%struct.claim = type { i64, i32 }

@accel_maps = external constant [0 x %struct.accel_map], align 8
@accel_pid_tgid = external local_unnamed_addr constant i64, align 8
@accel_map_count = external local_unnamed_addr constant i64, align 8
@accel_threads = external local_unnamed_addr constant i64, align 8
@accel_losses = external local_unnamed_addr constant i64, align 8
@accel_printk = external local_unnamed_addr constant i64, align 8
@accel_launch_number = external local_unnamed_addr constant i64, align 8

define i64 @accel_helper_1(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i32 @kind_of(i64 noundef %0) #19
  %7 = icmp eq i32 %6, 1
  br i1 %7, label %8, label %12

8:                                                ; preds = %5
  %9 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %10 = inttoptr i64 %1 to ptr
  %11 = tail call i64 @hash_lookup(ptr noundef nonnull %9, ptr noundef %10) #19
  br label %18

12:                                               ; preds = %5
  %13 = and i32 %6, 6
  %14 = icmp eq i32 %13, 2
  br i1 %14, label %15, label %18

15:                                               ; preds = %12
  %16 = inttoptr i64 %1 to ptr
  %17 = tail call i64 @array_lookup(i64 noundef %0, ptr noundef %16, i32 noundef %6) #20
  br label %18

18:                                               ; preds = %15, %12, %8
  %19 = phi i64 [ %11, %8 ], [ %17, %15 ], [ 0, %12 ]
  ret i64 %19
}

declare void @llvm.lifetime.start.p0(i64 immarg, ptr nocapture) #1

define internal range(i32 0, 6) i32 @kind_of(i64 noundef %0) unnamed_addr #2 {
  %2 = load i64, ptr @accel_map_count, align 8
  %3 = icmp ugt i64 %2, %0
  br i1 %3, label %4, label %12

4:                                                ; preds = %1
  %5 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %6 = load i32, ptr %5, align 8
  switch i32 %6, label %11 [
    i32 1, label %12
    i32 1501, label %12
    i32 2, label %7
    i32 1503, label %7
    i32 1504, label %7
    i32 1513, label %7
    i32 1502, label %8
    i32 1512, label %8
    i32 27, label %9
    i32 1527, label %10
  ]

7:                                                ; preds = %4, %4, %4, %4
  br label %12

8:                                                ; preds = %4, %4
  br label %12

9:                                                ; preds = %4
  br label %12

10:                                               ; preds = %4
  br label %12

11:                                               ; preds = %4
  br label %12

12:                                               ; preds = %4, %4, %1, %11, %10, %9, %8, %7
  %13 = phi i32 [ 0, %11 ], [ 5, %10 ], [ 4, %9 ], [ 3, %8 ], [ 2, %7 ], [ 0, %1 ], [ 1, %4 ], [ 1, %4 ]
  ret i32 %13
}

define internal i64 @hash_lookup(ptr nocapture noundef readonly %0, ptr noundef %1) unnamed_addr #3 {
  %3 = alloca %struct.search, align 8
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %3) #21
  %4 = tail call i32 @hash_of(ptr noundef %0, ptr noundef %1) #19
  call void @search(ptr dead_on_unwind nonnull writable sret(%struct.search) align 8 %3, ptr noundef %0, ptr noundef %1, i32 noundef %4, i64 noundef -1) #19
  %5 = load i64, ptr %3, align 8
  %6 = icmp eq i64 %5, -1
  br i1 %6, label %10, label %7

7:                                                ; preds = %2
  %8 = tail call ptr addrspace(1) @slot_value(ptr noundef %0, i64 noundef %5) #19
  %9 = ptrtoint ptr addrspace(1) %8 to i64
  br label %10

10:                                               ; preds = %2, %7
  %11 = phi i64 [ %9, %7 ], [ 0, %2 ]
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %3) #21
  ret i64 %11
}

define internal i64 @array_lookup(i64 noundef %0, ptr noundef %1, i32 noundef %2) unnamed_addr #0 {
  %4 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %5 = tail call i32 @word(ptr noundef %1, i32 noundef 4, i32 noundef 0) #19
  %6 = getelementptr inbounds i8, ptr %4, i64 12
  %7 = load i32, ptr %6, align 4
  %8 = icmp ult i32 %5, %7
  br i1 %8, label %9, label %17

9:                                                ; preds = %3
  %10 = tail call i64 @no_room_for_thread(i32 noundef %2) #20
  %11 = icmp eq i64 %10, 0
  br i1 %11, label %14, label %12

12:                                               ; preds = %9
  %13 = tail call i64 @lost(i64 noundef %0, i32 noundef 7) #19
  br label %17

14:                                               ; preds = %9
  %15 = zext i32 %5 to i64
  %16 = tail call i64 @array_value(ptr noundef nonnull %4, i64 noundef %15, i32 noundef %2) #20
  br label %17

17:                                               ; preds = %3, %14, %12
  %18 = phi i64 [ 0, %12 ], [ %16, %14 ], [ 0, %3 ]
  ret i64 %18
}

declare void @llvm.lifetime.end.p0(i64 immarg, ptr nocapture) #1

define i64 @accel_helper_2(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i32 @kind_of(i64 noundef %0) #19
  %7 = icmp ugt i64 %3, 2
  br i1 %7, label %8, label %10

8:                                                ; preds = %5
  %9 = tail call i64 @failed(i32 noundef 22) #19
  br label %25

10:                                               ; preds = %5
  %11 = icmp eq i32 %6, 1
  br i1 %11, label %12, label %16

12:                                               ; preds = %10
  %13 = inttoptr i64 %1 to ptr
  %14 = inttoptr i64 %2 to ptr
  %15 = tail call i64 @hash_update(i64 noundef %0, ptr noundef %13, ptr noundef %14, i64 noundef %3) #20
  br label %25

16:                                               ; preds = %10
  %17 = and i32 %6, 6
  %18 = icmp eq i32 %17, 2
  br i1 %18, label %19, label %23

19:                                               ; preds = %16
  %20 = inttoptr i64 %1 to ptr
  %21 = inttoptr i64 %2 to ptr
  %22 = tail call i64 @array_update(i64 noundef %0, ptr noundef %20, ptr noundef %21, i64 noundef %3, i32 noundef %6) #20
  br label %25

23:                                               ; preds = %16
  %24 = tail call i64 @failed(i32 noundef 22) #19
  br label %25

25:                                               ; preds = %23, %19, %12, %8
  %26 = phi i64 [ %9, %8 ], [ %15, %12 ], [ %22, %19 ], [ %24, %23 ]
  ret i64 %26
}

define internal range(i64 -28, -1) i64 @failed(i32 noundef %0) unnamed_addr #2 {
  %2 = sub nsw i32 0, %0
  %3 = sext i32 %2 to i64
  ret i64 %3
}

define internal i64 @hash_update(i64 noundef %0, ptr noundef %1, ptr noundef %2, i64 noundef %3) unnamed_addr #0 {
  %5 = alloca i64, align 8
  %6 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %7 = tail call i32 @hash_of(ptr noundef nonnull %6, ptr noundef %1) #19
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %5) #21
  store i64 -1, ptr %5, align 8
  br label %11

8:                                                ; preds = %11
  %9 = add nuw nsw i32 %14, 1
  %10 = icmp ugt i32 %14, 16382
  br i1 %10, label %19, label %11

11:                                               ; preds = %4, %8
  %12 = phi i1 [ false, %4 ], [ %10, %8 ]
  %13 = phi i64 [ undef, %4 ], [ %18, %8 ]
  %14 = phi i32 [ 0, %4 ], [ %9, %8 ]
  %15 = tail call i32 @active() #20
  %16 = call i64 @hash_attempt(i64 noundef %0, i32 noundef %7, ptr noundef %1, ptr noundef %2, i64 noundef %3, ptr noundef nonnull %5) #19
  %17 = icmp eq i64 %16, 1
  %18 = select i1 %17, i64 %13, i64 %16
  br i1 %17, label %8, label %19

19:                                               ; preds = %8, %11
  %20 = phi i1 [ %10, %8 ], [ %12, %11 ]
  br i1 %20, label %21, label %23

21:                                               ; preds = %19
  call void @hash_release(ptr noundef nonnull %6, ptr noundef nonnull %5) #19
  %22 = tail call i64 @lost(i64 noundef %0, i32 noundef 16) #19
  br label %23

23:                                               ; preds = %19, %21
  %24 = phi i64 [ %22, %21 ], [ %18, %19 ]
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %5) #21
  ret i64 %24
}

define internal range(i64 -28, 1) i64 @array_update(i64 noundef %0, ptr noundef %1, ptr noundef %2, i64 noundef %3, i32 noundef %4) unnamed_addr #0 {
  %6 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %7 = tail call i32 @word(ptr noundef %1, i32 noundef 4, i32 noundef 0) #19
  %8 = getelementptr inbounds i8, ptr %6, i64 12
  %9 = load i32, ptr %8, align 4
  %10 = icmp ult i32 %7, %9
  br i1 %10, label %11, label %14

11:                                               ; preds = %5
  %12 = tail call i64 @no_room_for_thread(i32 noundef %4) #20
  %13 = icmp eq i64 %12, 0
  br i1 %13, label %16, label %14

14:                                               ; preds = %11, %5
  %15 = tail call i64 @lost(i64 noundef %0, i32 noundef 7) #19
  br label %27

16:                                               ; preds = %11
  %17 = icmp eq i64 %3, 1
  br i1 %17, label %18, label %20

18:                                               ; preds = %16
  %19 = tail call i64 @failed(i32 noundef 17) #19
  br label %27

20:                                               ; preds = %16
  %21 = zext i32 %7 to i64
  %22 = tail call i64 @array_value(ptr noundef nonnull %6, i64 noundef %21, i32 noundef %4) #20
  %23 = inttoptr i64 %22 to ptr addrspace(1)
  %24 = getelementptr inbounds i8, ptr %6, i64 8
  %25 = load i32, ptr %24, align 8
  %26 = zext i32 %25 to i64
  tail call void @copy(ptr addrspace(1) noundef %23, ptr noundef %2, i64 noundef %26) #19
  br label %27

27:                                               ; preds = %20, %18, %14
  %28 = phi i64 [ %15, %14 ], [ %19, %18 ], [ 0, %20 ]
  ret i64 %28
}

define i64 @accel_helper_3(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #3 {
  %6 = tail call i32 @kind_of(i64 noundef %0) #19
  %7 = icmp eq i32 %6, 1
  br i1 %7, label %8, label %12

8:                                                ; preds = %5
  %9 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %10 = inttoptr i64 %1 to ptr
  %11 = tail call i64 @hash_delete(ptr noundef nonnull %9, ptr noundef %10) #19
  br label %14

12:                                               ; preds = %5
  %13 = tail call i64 @failed(i32 noundef 22) #19
  br label %14

14:                                               ; preds = %12, %8
  %15 = phi i64 [ %11, %8 ], [ %13, %12 ]
  ret i64 %15
}

define internal range(i64 -28, 1) i64 @hash_delete(ptr nocapture noundef readonly %0, ptr noundef %1) unnamed_addr #3 {
  %3 = alloca %struct.search, align 8
  %4 = alloca i32, align 4
  %5 = tail call i32 @hash_of(ptr noundef %0, ptr noundef %1) #19
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %3) #21
  call void @search(ptr dead_on_unwind nonnull writable sret(%struct.search) align 8 %3, ptr noundef %0, ptr noundef %1, i32 noundef %5, i64 noundef -1) #19
  %6 = load i64, ptr %3, align 8
  %7 = icmp eq i64 %6, -1
  br i1 %7, label %8, label %10

8:                                                ; preds = %2
  %9 = tail call i64 @failed(i32 noundef 2) #19
  br label %32

10:                                               ; preds = %2
  %11 = tail call ptr addrspace(1) @slot_state(ptr noundef %0, i64 noundef %6) #19
  call void @llvm.lifetime.start.p0(i64 4, ptr nonnull %4) #21
  %12 = and i32 %5, -4
  %13 = or disjoint i32 %12, 2
  store i32 %13, ptr %4, align 4
  %14 = or disjoint i32 %12, 1
  %15 = call i32 @swap32(ptr addrspace(1) noundef %11, ptr noundef nonnull %4, i32 noundef %14) #19
  %16 = icmp eq i32 %15, 0
  br i1 %16, label %17, label %19

17:                                               ; preds = %10
  %18 = tail call i64 @failed(i32 noundef 2) #19
  br label %30

19:                                               ; preds = %10
  %20 = tail call i32 @same_key(ptr noundef %0, i64 noundef %6, ptr noundef %1) #19
  %21 = icmp eq i32 %20, 0
  br i1 %21, label %22, label %25

22:                                               ; preds = %19
  %23 = load i32, ptr %4, align 4
  tail call void @set32(ptr addrspace(1) noundef %11, i32 noundef %23) #19
  %24 = tail call i64 @failed(i32 noundef 2) #19
  br label %30

25:                                               ; preds = %19
  %26 = getelementptr inbounds i8, ptr %0, i64 16
  %27 = load i64, ptr %26, align 8
  %28 = inttoptr i64 %27 to ptr addrspace(1)
  %29 = tail call i64 @add64(ptr addrspace(1) noundef %28, i64 noundef 4294967295) #19
  tail call void @set32(ptr addrspace(1) noundef %11, i32 noundef 3) #19
  br label %30

30:                                               ; preds = %25, %22, %17
  %31 = phi i64 [ 0, %25 ], [ %24, %22 ], [ %18, %17 ]
  call void @llvm.lifetime.end.p0(i64 4, ptr nonnull %4) #21
  br label %32

32:                                               ; preds = %30, %8
  %33 = phi i64 [ %9, %8 ], [ %31, %30 ]
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %3) #21
  ret i64 %33
}

define i64 @accel_helper_5(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i64 @time_ns() #20
  ret i64 %6
}

define internal i64 @time_ns() unnamed_addr #0 {
  %1 = tail call i64 @accel_spirv_clock() #22
  ret i64 %1
}

define i64 @accel_helper_6(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = icmp eq i64 %1, 0
  br i1 %6, label %10, label %7

7:                                                ; preds = %5
  %8 = inttoptr i64 %0 to ptr
  %9 = tail call i64 @print(ptr noundef %8, i64 noundef %1, i32 noundef 1, i64 noundef %2, i64 noundef %3, i64 noundef %4) #20
  br label %12

10:                                               ; preds = %5
  %11 = tail call i64 @failed(i32 noundef 22) #19
  br label %12

12:                                               ; preds = %10, %7
  %13 = phi i64 [ %9, %7 ], [ %11, %10 ]
  ret i64 %13
}

define internal i64 @print(ptr noundef %0, i64 noundef %1, i32 noundef %2, i64 noundef %3, i64 noundef %4, i64 noundef %5) unnamed_addr #0 {
  %7 = tail call i64 @llvm.umin.i64(i64 %1, i64 128)
  %8 = load i64, ptr @accel_map_count, align 8
  %9 = load i64, ptr @accel_printk, align 8
  %10 = add nuw nsw i64 %7, 32
  %11 = tail call ptr addrspace(1) @reserve(i64 noundef %8, i64 noundef %9, i32 noundef 262144, i64 noundef %10) #20
  %12 = icmp eq ptr addrspace(1) %11, null
  br i1 %12, label %13, label %15

13:                                               ; preds = %6
  %14 = tail call i64 @failed(i32 noundef 11) #19
  br label %23

15:                                               ; preds = %6
  %16 = getelementptr inbounds i8, ptr addrspace(1) %11, i64 24
  store i64 %3, ptr addrspace(1) %16, align 8
  %17 = getelementptr inbounds i8, ptr addrspace(1) %11, i64 32
  store i64 %4, ptr addrspace(1) %17, align 8
  %18 = getelementptr inbounds i8, ptr addrspace(1) %11, i64 40
  store i64 %5, ptr addrspace(1) %18, align 8
  %19 = getelementptr inbounds i8, ptr addrspace(1) %11, i64 48
  store i32 %2, ptr addrspace(1) %19, align 8
  %20 = trunc nuw nsw i64 %7 to i32
  %21 = getelementptr inbounds i8, ptr addrspace(1) %11, i64 52
  store i32 %20, ptr addrspace(1) %21, align 4
  %22 = getelementptr inbounds i8, ptr addrspace(1) %11, i64 56
  tail call void @copy(ptr addrspace(1) noundef %22, ptr noundef %0, i64 noundef %7) #19
  tail call void @commit(ptr addrspace(1) noundef nonnull %11, i64 noundef %10, i32 noundef 0) #19
  br label %23

23:                                               ; preds = %15, %13
  %24 = phi i64 [ %7, %15 ], [ %14, %13 ]
  ret i64 %24
}

define i64 @accel_helper_14(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  %6 = load i64, ptr @accel_pid_tgid, align 8
  ret i64 %6
}

define i64 @accel_helper_25(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = inttoptr i64 %3 to ptr
  %7 = tail call i64 @output(i64 noundef %1, ptr noundef %6, i64 noundef %4) #20
  ret i64 %7
}

define internal i64 @output(i64 noundef %0, ptr noundef %1, i64 noundef %2) unnamed_addr #0 {
  %4 = tail call i32 @kind_of(i64 noundef %0) #19
  switch i32 %4, label %9 [
    i32 5, label %5
    i32 4, label %7
  ]

5:                                                ; preds = %3
  %6 = tail call i64 @own_ring_output(i64 noundef %0, ptr noundef %1, i64 noundef %2) #20
  br label %11

7:                                                ; preds = %3
  %8 = tail call i64 @ring_output(i64 noundef %0, ptr noundef %1, i64 noundef %2) #20
  br label %11

9:                                                ; preds = %3
  %10 = tail call i64 @failed(i32 noundef 22) #19
  br label %11

11:                                               ; preds = %7, %9, %5
  %12 = phi i64 [ %6, %5 ], [ %8, %7 ], [ %10, %9 ]
  ret i64 %12
}

define i64 @accel_helper_130(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = icmp ult i64 %3, 4
  br i1 %6, label %9, label %7

7:                                                ; preds = %5
  %8 = tail call i64 @failed(i32 noundef 22) #19
  br label %12

9:                                                ; preds = %5
  %10 = inttoptr i64 %1 to ptr
  %11 = tail call i64 @output(i64 noundef %0, ptr noundef %10, i64 noundef %2) #20
  br label %12

12:                                               ; preds = %9, %7
  %13 = phi i64 [ %8, %7 ], [ %11, %9 ]
  ret i64 %13
}

define i64 @accel_helper_131(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = icmp eq i64 %2, 0
  br i1 %6, label %7, label %23

7:                                                ; preds = %5
  %8 = tail call i32 @kind_of(i64 noundef %0) #19
  %9 = icmp eq i32 %8, 4
  br i1 %9, label %10, label %23

10:                                               ; preds = %7
  %11 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %12 = getelementptr inbounds i8, ptr %11, i64 16
  %13 = load i64, ptr %12, align 8
  %14 = getelementptr inbounds i8, ptr %11, i64 12
  %15 = load i32, ptr %14, align 4
  %16 = tail call ptr addrspace(1) @reserve(i64 noundef %0, i64 noundef %13, i32 noundef %15, i64 noundef %1) #20
  %17 = icmp eq ptr addrspace(1) %16, null
  br i1 %17, label %23, label %18

18:                                               ; preds = %10
  %19 = trunc i64 %1 to i32
  %20 = or i32 %19, -2147483648
  store i32 %20, ptr addrspace(1) %16, align 8
  %21 = getelementptr inbounds i8, ptr addrspace(1) %16, i64 24
  %22 = ptrtoint ptr addrspace(1) %21 to i64
  br label %23

23:                                               ; preds = %18, %10, %5, %7
  %24 = phi i64 [ 0, %7 ], [ 0, %5 ], [ %22, %18 ], [ 0, %10 ]
  ret i64 %24
}

define internal ptr addrspace(1) @reserve(i64 noundef %0, i64 noundef %1, i32 noundef %2, i64 noundef %3) unnamed_addr #0 {
  %5 = inttoptr i64 %1 to ptr addrspace(1)
  %6 = tail call i64 @ring_size(i32 noundef %2) #19
  %7 = icmp ult i64 %6, %3
  br i1 %7, label %12, label %8

8:                                                ; preds = %4
  %9 = tail call i64 @round8(i64 noundef %3) #19
  %10 = add i64 %9, 24
  %11 = tail call i64 @take(ptr addrspace(1) noundef %5, i64 noundef %6, i64 noundef %10) #20
  br label %12

12:                                               ; preds = %4, %8
  %13 = phi i64 [ %11, %8 ], [ -1, %4 ]
  %14 = icmp eq i64 %13, -1
  br i1 %14, label %15, label %17

15:                                               ; preds = %12
  %16 = tail call i64 @lost(i64 noundef %0, i32 noundef 28) #19
  br label %26

17:                                               ; preds = %12
  %18 = getelementptr inbounds i8, ptr addrspace(1) %5, i64 64
  %19 = add nsw i64 %6, -8
  %20 = and i64 %13, %19
  %21 = getelementptr inbounds i8, ptr addrspace(1) %18, i64 %20
  %22 = tail call i64 @thread_number() #20
  %23 = getelementptr inbounds i8, ptr addrspace(1) %21, i64 8
  store i64 %22, ptr addrspace(1) %23, align 8
  %24 = tail call i64 @launch_id() #19
  %25 = getelementptr inbounds i8, ptr addrspace(1) %21, i64 16
  store i64 %24, ptr addrspace(1) %25, align 8
  br label %26

26:                                               ; preds = %17, %15
  %27 = phi ptr addrspace(1) [ null, %15 ], [ %21, %17 ]
  ret ptr addrspace(1) %27
}

define noundef i64 @accel_helper_132(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
  tail call void @end_record(i64 noundef %0, i32 noundef 0) #19
  ret i64 0
}

define internal void @end_record(i64 noundef %0, i32 noundef %1) unnamed_addr #4 {
  %3 = inttoptr i64 %0 to ptr addrspace(1)
  %4 = getelementptr inbounds i8, ptr addrspace(1) %3, i64 -24
  %5 = load i32, ptr addrspace(1) %4, align 8
  %6 = and i32 %5, 2147483647
  %7 = zext nneg i32 %6 to i64
  tail call void @commit(ptr addrspace(1) noundef %4, i64 noundef %7, i32 noundef %1) #19
  ret void
}

define noundef i64 @accel_helper_133(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
  tail call void @end_record(i64 noundef %0, i32 noundef 1073741824) #19
  ret i64 0
}

define i64 @accel_helper_501(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = inttoptr i64 %0 to ptr
  br label %7

7:                                                ; preds = %5, %12
  %8 = phi i64 [ 0, %5 ], [ %13, %12 ]
  %9 = getelementptr inbounds i8, ptr %6, i64 %8
  %10 = load i8, ptr %9, align 1
  %11 = icmp eq i8 %10, 0
  br i1 %11, label %15, label %12

12:                                               ; preds = %7
  %13 = add nuw nsw i64 %8, 1
  %14 = icmp ult i64 %8, 127
  br i1 %14, label %7, label %15

15:                                               ; preds = %12, %7
  %16 = phi i64 [ 128, %12 ], [ %8, %7 ]
  %17 = inttoptr i64 %0 to ptr
  %18 = tail call i64 @print(ptr noundef %17, i64 noundef %16, i32 noundef 0, i64 noundef 0, i64 noundef 0, i64 noundef 0) #20
  ret i64 %18
}

define i64 @accel_helper_502(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i64 @time_ns() #20
  ret i64 %6
}

define noundef i64 @accel_helper_503(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = alloca [3 x i64], align 8
  store i64 %0, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %8, align 8
  %9 = tail call i32 @block(i32 noundef 0) #20
  %10 = zext i32 %9 to i64
  %11 = tail call i32 @block(i32 noundef 1) #20
  %12 = zext i32 %11 to i64
  %13 = tail call i32 @block(i32 noundef 2) #20
  %14 = zext i32 %13 to i64
  call void @write3(ptr noundef nonnull %6, i64 noundef %10, i64 noundef %12, i64 noundef %14) #19
  ret i64 0
}

define internal void @write3(ptr nocapture noundef readonly %0, i64 noundef %1, i64 noundef %2, i64 noundef %3) unnamed_addr #5 {
  %5 = load i64, ptr %0, align 8
  %6 = inttoptr i64 %5 to ptr
  store i64 %1, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %0, i64 8
  %8 = load i64, ptr %7, align 8
  %9 = inttoptr i64 %8 to ptr
  store i64 %2, ptr %9, align 8
  %10 = getelementptr inbounds i8, ptr %0, i64 16
  %11 = load i64, ptr %10, align 8
  %12 = inttoptr i64 %11 to ptr
  store i64 %3, ptr %12, align 8
  ret void
}

define internal i32 @block(i32 noundef %0) unnamed_addr #0 {
  switch i32 %0, label %8 [
    i32 0, label %2
    i32 1, label %5
  ]

2:                                                ; preds = %1
  %3 = tail call i64 @_Z12get_group_idj(i32 noundef 0) #22
  %4 = trunc i64 %3 to i32
  br label %11

5:                                                ; preds = %1
  %6 = tail call i64 @_Z12get_group_idj(i32 noundef 1) #22
  %7 = trunc i64 %6 to i32
  br label %11

8:                                                ; preds = %1
  %9 = tail call i64 @_Z12get_group_idj(i32 noundef 2) #22
  %10 = trunc i64 %9 to i32
  br label %11

11:                                               ; preds = %5, %8, %2
  %12 = phi i32 [ %7, %5 ], [ %10, %8 ], [ %4, %2 ]
  ret i32 %12
}

define noundef i64 @accel_helper_504(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = alloca [3 x i64], align 8
  store i64 %0, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %8, align 8
  %9 = tail call i32 @dims(i32 noundef 0) #20
  %10 = zext i32 %9 to i64
  %11 = tail call i32 @dims(i32 noundef 1) #20
  %12 = zext i32 %11 to i64
  %13 = tail call i32 @dims(i32 noundef 2) #20
  %14 = zext i32 %13 to i64
  call void @write3(ptr noundef nonnull %6, i64 noundef %10, i64 noundef %12, i64 noundef %14) #19
  ret i64 0
}

define internal i32 @dims(i32 noundef %0) unnamed_addr #0 {
  switch i32 %0, label %8 [
    i32 0, label %2
    i32 1, label %5
  ]

2:                                                ; preds = %1
  %3 = tail call i64 @_Z23get_enqueued_local_sizej(i32 noundef 0) #22
  %4 = trunc i64 %3 to i32
  br label %11

5:                                                ; preds = %1
  %6 = tail call i64 @_Z23get_enqueued_local_sizej(i32 noundef 1) #22
  %7 = trunc i64 %6 to i32
  br label %11

8:                                                ; preds = %1
  %9 = tail call i64 @_Z23get_enqueued_local_sizej(i32 noundef 2) #22
  %10 = trunc i64 %9 to i32
  br label %11

11:                                               ; preds = %5, %8, %2
  %12 = phi i32 [ %7, %5 ], [ %10, %8 ], [ %4, %2 ]
  ret i32 %12
}

define noundef i64 @accel_helper_505(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = alloca [3 x i64], align 8
  store i64 %0, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %8, align 8
  %9 = tail call i32 @thread(i32 noundef 0) #20
  %10 = zext i32 %9 to i64
  %11 = tail call i32 @thread(i32 noundef 1) #20
  %12 = zext i32 %11 to i64
  %13 = tail call i32 @thread(i32 noundef 2) #20
  %14 = zext i32 %13 to i64
  call void @write3(ptr noundef nonnull %6, i64 noundef %10, i64 noundef %12, i64 noundef %14) #19
  ret i64 0
}

define internal i32 @thread(i32 noundef %0) unnamed_addr #0 {
  switch i32 %0, label %8 [
    i32 0, label %2
    i32 1, label %5
  ]

2:                                                ; preds = %1
  %3 = tail call i64 @_Z12get_local_idj(i32 noundef 0) #22
  %4 = trunc i64 %3 to i32
  br label %11

5:                                                ; preds = %1
  %6 = tail call i64 @_Z12get_local_idj(i32 noundef 1) #22
  %7 = trunc i64 %6 to i32
  br label %11

8:                                                ; preds = %1
  %9 = tail call i64 @_Z12get_local_idj(i32 noundef 2) #22
  %10 = trunc i64 %9 to i32
  br label %11

11:                                               ; preds = %5, %8, %2
  %12 = phi i32 [ %7, %5 ], [ %10, %8 ], [ %4, %2 ]
  ret i32 %12
}

define noundef i64 @accel_helper_506(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #6 {
  tail call void @publish() #19
  ret i64 0
}

define internal void @publish() unnamed_addr #6 {
  fence syncscope("device") seq_cst
  ret void
}

define noundef i64 @accel_helper_508(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = alloca [3 x i64], align 8
  store i64 %0, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %8, align 8
  %9 = tail call i32 @grid(i32 noundef 0) #20
  %10 = zext i32 %9 to i64
  %11 = tail call i32 @grid(i32 noundef 1) #20
  %12 = zext i32 %11 to i64
  %13 = tail call i32 @grid(i32 noundef 2) #20
  %14 = zext i32 %13 to i64
  call void @write3(ptr noundef nonnull %6, i64 noundef %10, i64 noundef %12, i64 noundef %14) #19
  ret i64 0
}

define internal i32 @grid(i32 noundef %0) unnamed_addr #0 {
  switch i32 %0, label %8 [
    i32 0, label %2
    i32 1, label %5
  ]

2:                                                ; preds = %1
  %3 = tail call i64 @_Z14get_num_groupsj(i32 noundef 0) #22
  %4 = trunc i64 %3 to i32
  br label %11

5:                                                ; preds = %1
  %6 = tail call i64 @_Z14get_num_groupsj(i32 noundef 1) #22
  %7 = trunc i64 %6 to i32
  br label %11

8:                                                ; preds = %1
  %9 = tail call i64 @_Z14get_num_groupsj(i32 noundef 2) #22
  %10 = trunc i64 %9 to i32
  br label %11

11:                                               ; preds = %5, %8, %2
  %12 = phi i32 [ %7, %5 ], [ %10, %8 ], [ %4, %2 ]
  ret i32 %12
}

define range(i64 0, 4294967296) i64 @accel_helper_510(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i32 @warp_id() #20
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define internal i32 @warp_id() unnamed_addr #0 {
  %1 = tail call i32 @_Z16get_sub_group_idv() #22
  ret i32 %1
}

define range(i64 0, 4294967296) i64 @accel_helper_511(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i32 @lane_id() #20
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define internal i32 @lane_id() unnamed_addr #0 {
  %1 = tail call i32 @_Z22get_sub_group_local_idv() #22
  ret i32 %1
}

define range(i64 0, 4294967296) i64 @accel_helper_600(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i32 @active() #20
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define internal i32 @active() unnamed_addr #0 {
  %1 = tail call i32 @accel_spirv_ballot(i32 noundef 1) #22
  ret i32 %1
}

define range(i64 0, 2) i64 @accel_helper_601(i64 %0, i64 %1, i64 %2, i64 %3, i64 %4) local_unnamed_addr #0 {
  %6 = tail call i32 @lane_id() #20
  %7 = tail call i32 @active() #20
  %8 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %7, i1 true)
  %9 = icmp eq i32 %6, %8
  %10 = zext i1 %9 to i64
  ret i64 %10
}

declare i32 @llvm.cttz.i32(i32, i1 immarg) #7

define range(i64 0, 4294967296) i64 @accel_helper_602(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i32 @active() #20
  %7 = icmp ne i64 %0, 0
  %8 = zext i1 %7 to i32
  %9 = tail call i32 @ballot(i32 noundef %8) #20
  %10 = zext i32 %9 to i64
  ret i64 %10
}

define internal i32 @ballot(i32 noundef %0) unnamed_addr #0 {
  %2 = icmp ne i32 %0, 0
  %3 = zext i1 %2 to i32
  %4 = tail call i32 @accel_spirv_ballot(i32 noundef %3) #22
  ret i32 %4
}

define range(i64 0, 2) i64 @accel_helper_603(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i32 @active() #20
  %7 = icmp ne i64 %0, 0
  %8 = zext i1 %7 to i32
  %9 = tail call i32 @ballot(i32 noundef %8) #20
  %10 = icmp ne i32 %9, 0
  %11 = zext i1 %10 to i64
  ret i64 %11
}

define range(i64 0, 2) i64 @accel_helper_604(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i32 @active() #20
  %7 = icmp eq i64 %0, 0
  %8 = zext i1 %7 to i32
  %9 = tail call i32 @ballot(i32 noundef %8) #20
  %10 = icmp eq i32 %9, 0
  %11 = zext i1 %10 to i64
  ret i64 %11
}

define noundef i64 @accel_helper_605(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  ret i64 0
}

define i64 @accel_helper_606(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i64 @cycles() #20
  ret i64 %6
}

define internal i64 @cycles() unnamed_addr #0 {
  %1 = tail call i64 @accel_spirv_clock() #22
  ret i64 %1
}

define i64 @accel_helper_607(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i64 @thread_number() #20
  ret i64 %6
}

define internal i64 @thread_number() unnamed_addr #0 {
  %1 = tail call i32 @block(i32 noundef 2) #20
  %2 = zext i32 %1 to i64
  %3 = tail call i32 @dims(i32 noundef 2) #20
  %4 = zext i32 %3 to i64
  %5 = mul nuw i64 %4, %2
  %6 = tail call i32 @thread(i32 noundef 2) #20
  %7 = zext i32 %6 to i64
  %8 = add nuw i64 %5, %7
  %9 = tail call i32 @grid(i32 noundef 1) #20
  %10 = zext i32 %9 to i64
  %11 = tail call i32 @dims(i32 noundef 1) #20
  %12 = zext i32 %11 to i64
  %13 = mul i64 %8, %10
  %14 = mul i64 %13, %12
  %15 = tail call i32 @block(i32 noundef 1) #20
  %16 = zext i32 %15 to i64
  %17 = tail call i32 @dims(i32 noundef 1) #20
  %18 = zext i32 %17 to i64
  %19 = mul nuw i64 %18, %16
  %20 = tail call i32 @thread(i32 noundef 1) #20
  %21 = zext i32 %20 to i64
  %22 = add i64 %14, %21
  %23 = add i64 %22, %19
  %24 = tail call i32 @grid(i32 noundef 0) #20
  %25 = zext i32 %24 to i64
  %26 = tail call i32 @dims(i32 noundef 0) #20
  %27 = zext i32 %26 to i64
  %28 = mul nuw i64 %27, %25
  %29 = mul i64 %28, %23
  %30 = tail call i32 @block(i32 noundef 0) #20
  %31 = zext i32 %30 to i64
  %32 = tail call i32 @dims(i32 noundef 0) #20
  %33 = zext i32 %32 to i64
  %34 = mul nuw i64 %33, %31
  %35 = tail call i32 @thread(i32 noundef 0) #20
  %36 = zext i32 %35 to i64
  %37 = add i64 %29, %36
  %38 = add i64 %37, %34
  ret i64 %38
}

define i64 @accel_helper_608(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i64 @block_number() #20
  ret i64 %6
}

define internal i64 @block_number() unnamed_addr #0 {
  %1 = tail call i32 @block(i32 noundef 2) #20
  %2 = zext i32 %1 to i64
  %3 = tail call i32 @grid(i32 noundef 1) #20
  %4 = zext i32 %3 to i64
  %5 = mul nuw i64 %4, %2
  %6 = tail call i32 @block(i32 noundef 1) #20
  %7 = zext i32 %6 to i64
  %8 = add nuw i64 %5, %7
  %9 = tail call i32 @grid(i32 noundef 0) #20
  %10 = zext i32 %9 to i64
  %11 = mul i64 %8, %10
  %12 = tail call i32 @block(i32 noundef 0) #20
  %13 = zext i32 %12 to i64
  %14 = add i64 %11, %13
  ret i64 %14
}

define noundef i64 @accel_helper_609(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  tail call void @block_barrier() #20
  ret i64 0
}

define internal void @block_barrier() unnamed_addr #0 {
  tail call void @_Z7barrierj(i32 noundef 3) #22
  ret void
}

define range(i64 0, 33) i64 @accel_helper_610(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i32 @active() #20
  %7 = tail call i32 @distinct(i32 noundef %6, i64 noundef %0) #20
  %8 = zext nneg i32 %7 to i64
  ret i64 %8
}

define internal range(i32 0, 33) i32 @distinct(i32 noundef %0, i64 noundef %1) unnamed_addr #0 {
  %3 = tail call i32 @lane_id() #20
  %4 = shl nsw i32 -1, %3
  %5 = xor i32 %4, -1
  %6 = and i32 %5, %0
  %7 = lshr i64 %1, 32
  %8 = trunc nuw i64 %7 to i32
  %9 = trunc i64 %1 to i32
  %10 = icmp eq i32 %6, 0
  br i1 %10, label %14, label %11

11:                                               ; preds = %2
  %12 = tail call range(i32 1, 33) i32 @llvm.ctlz.i32(i32 %6, i1 true)
  %13 = xor i32 %12, 31
  br label %16

14:                                               ; preds = %2
  %15 = tail call i32 @lane_id() #20
  br label %16

16:                                               ; preds = %14, %11
  %17 = phi i32 [ %13, %11 ], [ %15, %14 ]
  %18 = tail call i32 @from_lane(i32 noundef %8, i32 noundef %17) #20
  %19 = zext i32 %18 to i64
  %20 = shl nuw i64 %19, 32
  %21 = tail call i32 @from_lane(i32 noundef %9, i32 noundef %17) #20
  %22 = zext i32 %21 to i64
  %23 = or disjoint i64 %20, %22
  %24 = icmp ugt i64 %23, %1
  %25 = zext i1 %24 to i32
  %26 = tail call i32 @ballot(i32 noundef %25) #20
  %27 = icmp eq i32 %26, 0
  br i1 %27, label %28, label %33

28:                                               ; preds = %16
  %29 = icmp ne i64 %23, %1
  %30 = or i1 %10, %29
  %31 = zext i1 %30 to i32
  %32 = tail call i32 @ballot(i32 noundef %31) #20
  br label %40

33:                                               ; preds = %16
  %34 = tail call i32 @lane_id() #20
  %35 = tail call i32 @same(i32 noundef %0, i64 noundef %1) #20
  %36 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %35, i1 true)
  %37 = icmp eq i32 %34, %36
  %38 = zext i1 %37 to i32
  %39 = tail call i32 @ballot(i32 noundef %38) #20
  br label %40

40:                                               ; preds = %33, %28
  %41 = phi i32 [ %39, %33 ], [ %32, %28 ]
  %42 = tail call range(i32 0, 33) i32 @llvm.ctpop.i32(i32 %41)
  ret i32 %42
}

define range(i64 0, 33) i64 @accel_helper_611(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = trunc i64 %0 to i32
  %7 = trunc i64 %1 to i32
  %8 = tail call i32 @bank_passes(i32 noundef %6, i32 noundef %7) #20
  %9 = zext nneg i32 %8 to i64
  ret i64 %9
}

define internal range(i32 0, 33) i32 @bank_passes(i32 noundef %0, i32 noundef %1) unnamed_addr #0 {
  %3 = icmp ugt i32 %1, 8
  %4 = icmp ult i32 %1, 5
  %5 = select i1 %3, i32 8, i32 16
  %6 = select i1 %4, i32 32, i32 %5
  %7 = select i1 %3, i32 4, i32 3
  %8 = select i1 %4, i32 2, i32 %7
  %9 = lshr i32 %0, %8
  %10 = tail call i32 @active() #20
  %11 = tail call i32 @lane_id() #20
  %12 = sub nsw i32 0, %6
  %13 = and i32 %11, %12
  %14 = shl nsw i32 -1, %6
  %15 = xor i32 %14, -1
  %16 = select i1 %4, i32 -1, i32 %15
  %17 = shl i32 %16, %13
  %18 = tail call i32 @same_word(i32 noundef %10, i32 noundef %9) #20
  %19 = and i32 %17, %18
  %20 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %19, i1 true)
  %21 = icmp eq i32 %11, %20
  %22 = zext i1 %21 to i32
  %23 = tail call i32 @ballot(i32 noundef %22) #20
  %24 = shl nsw i32 -1, %11
  %25 = xor i32 %24, -1
  %26 = and i32 %23, %25
  %27 = add nsw i32 %6, -1
  %28 = and i32 %9, %27
  %29 = tail call i32 @same_word(i32 noundef %10, i32 noundef %28) #20
  %30 = and i32 %26, %29
  %31 = and i32 %30, %17
  %32 = tail call range(i32 0, 32) i32 @llvm.ctpop.i32(i32 %31)
  %33 = shl i32 %13, 8
  %34 = select i1 %21, i32 %32, i32 0
  %35 = or disjoint i32 %34, %33
  %36 = tail call i32 @distinct_words(i32 noundef %10, i32 noundef %35) #20
  ret i32 %36
}

define range(i64 0, 2) i64 @accel_helper_612(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i32 @lane_id() #20
  %7 = tail call i32 @active() #20
  %8 = tail call i32 @same(i32 noundef %7, i64 noundef %0) #20
  %9 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %8, i1 true)
  %10 = icmp eq i32 %6, %9
  %11 = zext i1 %10 to i64
  ret i64 %11
}

define internal i32 @same(i32 noundef %0, i64 noundef %1) unnamed_addr #0 {
  %3 = trunc i64 %1 to i32
  %4 = tail call i32 @same_word(i32 noundef %0, i32 noundef %3) #20
  %5 = lshr i64 %1, 32
  %6 = trunc nuw i64 %5 to i32
  %7 = tail call i32 @same_word(i32 noundef %0, i32 noundef %6) #20
  %8 = and i32 %7, %4
  ret i32 %8
}

define range(i64 0, 256) i64 @accel_helper_613(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i32 @stripe_id() #20
  %7 = zext nneg i32 %6 to i64
  ret i64 %7
}

define internal range(i32 0, 256) i32 @stripe_id() unnamed_addr #0 {
  %1 = tail call i64 @_Z12get_group_idj(i32 noundef 2) #22
  %2 = tail call i64 @_Z14get_num_groupsj(i32 noundef 1) #22
  %3 = mul i64 %2, %1
  %4 = tail call i64 @_Z12get_group_idj(i32 noundef 1) #22
  %5 = add i64 %3, %4
  %6 = tail call i64 @_Z14get_num_groupsj(i32 noundef 0) #22
  %7 = mul i64 %5, %6
  %8 = tail call i64 @_Z12get_group_idj(i32 noundef 0) #22
  %9 = add i64 %7, %8
  %10 = trunc i64 %9 to i32
  %11 = lshr i32 %10, 4
  %12 = mul i32 %11, -1640531535
  %13 = lshr i32 %12, 24
  ret i32 %13
}

define range(i64 0, 4294967296) i64 @accel_helper_614(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call i32 @warp_size() #20
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define internal i32 @warp_size() unnamed_addr #0 {
  %1 = tail call i32 @_Z22get_max_sub_group_sizev() #22
  ret i32 %1
}

define i64 @accel_launch() local_unnamed_addr #6 {
  %1 = tail call i64 @launch_id() #19
  ret i64 %1
}

define internal i64 @launch_id() unnamed_addr #6 {
  %1 = load i64, ptr @accel_launch_number, align 8
  %2 = inttoptr i64 %1 to ptr addrspace(1)
  %3 = load volatile i64, ptr addrspace(1) %2, align 8
  ret i64 %3
}

define range(i32 0, 2) i32 @accel_is_leader() local_unnamed_addr #0 {
  %1 = tail call i64 @accel_helper_601(i64 poison, i64 poison, i64 poison, i64 poison, i64 poison) #20
  %2 = trunc nuw nsw i64 %1 to i32
  ret i32 %2
}

define internal void @search(ptr dead_on_unwind noalias nocapture writable writeonly sret(%struct.search) align 8 %0, ptr nocapture noundef readonly %1, ptr noundef readonly %2, i32 noundef %3, i64 noundef %4) unnamed_addr #3 {
  %6 = getelementptr inbounds i8, ptr %0, i64 16
  store i64 -1, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %0, i64 8
  store i64 -1, ptr %7, align 8
  store i64 -1, ptr %0, align 8
  %8 = tail call i64 @slots(ptr noundef %1) #19
  %9 = zext i32 %3 to i64
  %10 = tail call i64 @slots(ptr noundef %1) #19
  %11 = add nuw i64 %10, 9223372036854775807
  br label %12

12:                                               ; preds = %5, %46
  %13 = phi i64 [ 0, %5 ], [ %47, %46 ]
  %14 = phi i64 [ -1, %5 ], [ %44, %46 ]
  %15 = phi i64 [ -1, %5 ], [ %43, %46 ]
  %16 = phi i64 [ -1, %5 ], [ %42, %46 ]
  %17 = add nuw nsw i64 %13, %9
  %18 = and i64 %11, %17
  %19 = icmp eq i64 %18, %4
  br i1 %19, label %41, label %20

20:                                               ; preds = %12
  %21 = tail call ptr addrspace(1) @slot_state(ptr noundef %1, i64 noundef %18) #19
  %22 = tail call i32 @get32(ptr addrspace(1) noundef %21) #19
  switch i32 %22, label %27 [
    i32 3, label %23
    i32 0, label %23
  ]

23:                                               ; preds = %20, %20
  %24 = icmp eq i32 %22, 0
  %25 = icmp eq i64 %14, -1
  %26 = select i1 %25, i64 %18, i64 %14
  br i1 %24, label %41, label %38

27:                                               ; preds = %20
  %28 = xor i32 %22, %3
  %29 = icmp ult i32 %28, 4
  br i1 %29, label %30, label %41

30:                                               ; preds = %27
  %31 = and i32 %22, 3
  %32 = icmp eq i32 %31, 1
  br i1 %32, label %33, label %35

33:                                               ; preds = %30
  %34 = tail call i64 @llvm.umin.i64(i64 %18, i64 %16)
  br label %38

35:                                               ; preds = %30
  %36 = tail call i32 @same_key(ptr noundef %1, i64 noundef %18, ptr noundef %2) #19
  %37 = icmp eq i32 %36, 0
  br i1 %37, label %38, label %41

38:                                               ; preds = %33, %35, %23
  %39 = phi i64 [ %16, %35 ], [ %16, %23 ], [ %34, %33 ]
  %40 = phi i64 [ %14, %35 ], [ %26, %23 ], [ %14, %33 ]
  br label %41

41:                                               ; preds = %35, %38, %23, %27, %12
  %42 = phi i64 [ %16, %12 ], [ %39, %38 ], [ %16, %23 ], [ %16, %27 ], [ %16, %35 ]
  %43 = phi i64 [ %15, %12 ], [ %15, %38 ], [ %15, %23 ], [ %15, %27 ], [ %18, %35 ]
  %44 = phi i64 [ %14, %12 ], [ %40, %38 ], [ %26, %23 ], [ %14, %27 ], [ %14, %35 ]
  %45 = phi i32 [ 4, %12 ], [ 0, %38 ], [ 2, %23 ], [ 4, %27 ], [ 2, %35 ]
  switch i32 %45, label %49 [
    i32 0, label %46
    i32 4, label %46
  ]

46:                                               ; preds = %41, %41
  %47 = add nuw nsw i64 %13, 1
  %48 = icmp ult i64 %47, %8
  br i1 %48, label %12, label %49

49:                                               ; preds = %46, %41
  store i64 %44, ptr %7, align 8
  store i64 %43, ptr %0, align 8
  store i64 %42, ptr %6, align 8
  ret void
}

define internal i32 @hash_of(ptr nocapture noundef readonly %0, ptr noundef %1) unnamed_addr #8 {
  %3 = getelementptr inbounds i8, ptr %0, i64 4
  %4 = load i32, ptr %3, align 4
  %5 = tail call i32 @key_words(ptr noundef %0) #19
  %6 = icmp eq i32 %5, 0
  br i1 %6, label %7, label %12

7:                                                ; preds = %12, %2
  %8 = phi i32 [ %4, %2 ], [ %19, %12 ]
  %9 = mul i32 %8, -2048144789
  %10 = lshr i32 %9, 13
  %11 = xor i32 %10, %9
  ret i32 %11

12:                                               ; preds = %2, %12
  %13 = phi i32 [ %20, %12 ], [ 0, %2 ]
  %14 = phi i32 [ %19, %12 ], [ %4, %2 ]
  %15 = tail call i32 @word(ptr noundef %1, i32 noundef %4, i32 noundef %13) #19
  %16 = xor i32 %15, %14
  %17 = mul i32 %16, -1640531535
  %18 = lshr i32 %17, 15
  %19 = xor i32 %18, %17
  %20 = add nuw nsw i32 %13, 1
  %21 = icmp ult i32 %20, %5
  br i1 %21, label %12, label %7
}

define internal ptr addrspace(1) @slot_value(ptr nocapture noundef readonly %0, i64 noundef %1) unnamed_addr #9 {
  %3 = tail call ptr addrspace(1) @slot_at(ptr noundef %0, i64 noundef %1) #19
  %4 = getelementptr inbounds i8, ptr addrspace(1) %3, i64 8
  %5 = getelementptr inbounds i8, ptr %0, i64 4
  %6 = load i32, ptr %5, align 4
  %7 = zext i32 %6 to i64
  %8 = tail call i64 @round8(i64 noundef %7) #19
  %9 = getelementptr inbounds i8, ptr addrspace(1) %4, i64 %8
  ret ptr addrspace(1) %9
}

define internal range(i64 2, 8589934593) i64 @slots(ptr nocapture noundef readonly %0) unnamed_addr #9 {
  %2 = getelementptr inbounds i8, ptr %0, i64 12
  %3 = load i32, ptr %2, align 4
  %4 = tail call i64 @power_of_two(i32 noundef %3) #19
  %5 = shl nuw nsw i64 %4, 1
  ret i64 %5
}

define internal i32 @get32(ptr addrspace(1) nocapture noundef readonly %0) unnamed_addr #10 {
  %2 = load atomic i32, ptr addrspace(1) %0 syncscope("device") acquire, align 4
  ret i32 %2
}

define internal ptr addrspace(1) @slot_state(ptr nocapture noundef readonly %0, i64 noundef %1) unnamed_addr #9 {
  %3 = tail call ptr addrspace(1) @slot_at(ptr noundef %0, i64 noundef %1) #19
  ret ptr addrspace(1) %3
}

define internal range(i32 0, 2) i32 @same_key(ptr nocapture noundef readonly %0, i64 noundef %1, ptr noundef %2) unnamed_addr #11 {
  %4 = tail call ptr addrspace(1) @slot_key(ptr noundef %0, i64 noundef %1) #19
  %5 = tail call i32 @key_words(ptr noundef %0) #19
  %6 = icmp eq i32 %5, 0
  br i1 %6, label %12, label %7

7:                                                ; preds = %3
  %8 = getelementptr inbounds i8, ptr %0, i64 4
  %9 = load i32, ptr %8, align 4
  br label %15

10:                                               ; preds = %15
  %11 = icmp eq i32 %23, 0
  br label %12

12:                                               ; preds = %10, %3
  %13 = phi i1 [ true, %3 ], [ %11, %10 ]
  %14 = zext i1 %13 to i32
  ret i32 %14

15:                                               ; preds = %7, %15
  %16 = phi i32 [ 0, %7 ], [ %24, %15 ]
  %17 = phi i32 [ 0, %7 ], [ %23, %15 ]
  %18 = zext nneg i32 %16 to i64
  %19 = getelementptr inbounds i32, ptr addrspace(1) %4, i64 %18
  %20 = load i32, ptr addrspace(1) %19, align 4
  %21 = tail call i32 @word(ptr noundef %2, i32 noundef %9, i32 noundef %16) #19
  %22 = xor i32 %21, %20
  %23 = or i32 %22, %17
  %24 = add nuw nsw i32 %16, 1
  %25 = icmp ult i32 %24, %5
  br i1 %25, label %15, label %10
}

define internal range(i64 1, 4294967297) i64 @power_of_two(i32 noundef %0) unnamed_addr #2 {
  %2 = icmp ult i32 %0, 2
  br i1 %2, label %9, label %3

3:                                                ; preds = %1
  %4 = add i32 %0, -1
  %5 = tail call range(i32 0, 33) i32 @llvm.ctlz.i32(i32 %4, i1 true)
  %6 = sub nuw nsw i32 32, %5
  %7 = zext nneg i32 %6 to i64
  %8 = shl nuw nsw i64 1, %7
  br label %9

9:                                                ; preds = %1, %3
  %10 = phi i64 [ %8, %3 ], [ 1, %1 ]
  ret i64 %10
}

declare i32 @llvm.ctlz.i32(i32, i1 immarg) #7

define internal ptr addrspace(1) @slot_at(ptr nocapture noundef readonly %0, i64 noundef %1) unnamed_addr #9 {
  %3 = getelementptr inbounds i8, ptr %0, i64 4
  %4 = load i32, ptr %3, align 4
  %5 = zext i32 %4 to i64
  %6 = tail call i64 @round8(i64 noundef %5) #19
  %7 = add i64 %6, 8
  %8 = getelementptr inbounds i8, ptr %0, i64 8
  %9 = load i32, ptr %8, align 8
  %10 = zext i32 %9 to i64
  %11 = tail call i64 @round8(i64 noundef %10) #19
  %12 = add i64 %7, %11
  %13 = getelementptr inbounds i8, ptr %0, i64 16
  %14 = load i64, ptr %13, align 8
  %15 = inttoptr i64 %14 to ptr addrspace(1)
  %16 = getelementptr inbounds i8, ptr addrspace(1) %15, i64 64
  %17 = mul i64 %12, %1
  %18 = getelementptr inbounds i8, ptr addrspace(1) %16, i64 %17
  ret ptr addrspace(1) %18
}

define internal noundef range(i64 0, -7) i64 @round8(i64 noundef %0) unnamed_addr #2 {
  %2 = add i64 %0, 7
  %3 = and i64 %2, -8
  ret i64 %3
}

define internal ptr addrspace(1) @slot_key(ptr nocapture noundef readonly %0, i64 noundef %1) unnamed_addr #9 {
  %3 = tail call ptr addrspace(1) @slot_at(ptr noundef %0, i64 noundef %1) #19
  %4 = getelementptr inbounds i8, ptr addrspace(1) %3, i64 8
  ret ptr addrspace(1) %4
}

define internal range(i32 0, 1073741824) i32 @key_words(ptr nocapture noundef readonly %0) unnamed_addr #9 {
  %2 = getelementptr inbounds i8, ptr %0, i64 4
  %3 = load i32, ptr %2, align 4
  %4 = add i32 %3, 3
  %5 = lshr i32 %4, 2
  ret i32 %5
}

define internal i32 @word(ptr noundef %0, i32 noundef %1, i32 noundef %2) unnamed_addr #9 {
  %4 = shl nuw i32 %2, 2
  %5 = add nuw i32 %4, 4
  %6 = icmp ugt i32 %5, %1
  br i1 %6, label %15, label %7

7:                                                ; preds = %3
  %8 = ptrtoint ptr %0 to i64
  %9 = and i64 %8, 3
  %10 = icmp eq i64 %9, 0
  br i1 %10, label %11, label %15

11:                                               ; preds = %7
  %12 = zext i32 %4 to i64
  %13 = getelementptr inbounds i8, ptr %0, i64 %12
  %14 = load i32, ptr %13, align 4
  br label %55

15:                                               ; preds = %3, %7
  %16 = icmp ult i32 %4, %1
  br i1 %16, label %17, label %22

17:                                               ; preds = %15
  %18 = zext i32 %4 to i64
  %19 = getelementptr inbounds i8, ptr %0, i64 %18
  %20 = load i8, ptr %19, align 1
  %21 = zext i8 %20 to i32
  br label %22

22:                                               ; preds = %15, %17
  %23 = phi i32 [ %21, %17 ], [ 0, %15 ]
  %24 = or disjoint i32 %4, 1
  %25 = icmp ult i32 %24, %1
  br i1 %25, label %26, label %33

26:                                               ; preds = %22
  %27 = zext i32 %24 to i64
  %28 = getelementptr inbounds i8, ptr %0, i64 %27
  %29 = load i8, ptr %28, align 1
  %30 = zext i8 %29 to i32
  %31 = shl nuw nsw i32 %30, 8
  %32 = or disjoint i32 %31, %23
  br label %33

33:                                               ; preds = %26, %22
  %34 = phi i32 [ %32, %26 ], [ %23, %22 ]
  %35 = or disjoint i32 %4, 2
  %36 = icmp ult i32 %35, %1
  br i1 %36, label %37, label %44

37:                                               ; preds = %33
  %38 = zext i32 %35 to i64
  %39 = getelementptr inbounds i8, ptr %0, i64 %38
  %40 = load i8, ptr %39, align 1
  %41 = zext i8 %40 to i32
  %42 = shl nuw nsw i32 %41, 16
  %43 = or i32 %42, %34
  br label %44

44:                                               ; preds = %37, %33
  %45 = phi i32 [ %43, %37 ], [ %34, %33 ]
  %46 = or disjoint i32 %4, 3
  %47 = icmp ult i32 %46, %1
  br i1 %47, label %48, label %55

48:                                               ; preds = %44
  %49 = zext i32 %46 to i64
  %50 = getelementptr inbounds i8, ptr %0, i64 %49
  %51 = load i8, ptr %50, align 1
  %52 = zext i8 %51 to i32
  %53 = shl nuw i32 %52, 24
  %54 = or i32 %53, %45
  br label %55

55:                                               ; preds = %44, %48, %11
  %56 = phi i32 [ %14, %11 ], [ %54, %48 ], [ %45, %44 ]
  ret i32 %56
}

define internal range(i64 0, 2) i64 @no_room_for_thread(i32 noundef %0) unnamed_addr #0 {
  %2 = icmp eq i32 %0, 3
  br i1 %2, label %3, label %7

3:                                                ; preds = %1
  %4 = tail call i64 @thread_number() #20
  %5 = load i64, ptr @accel_threads, align 8
  %6 = icmp uge i64 %4, %5
  br label %7

7:                                                ; preds = %3, %1
  %8 = phi i1 [ false, %1 ], [ %6, %3 ]
  %9 = zext i1 %8 to i64
  ret i64 %9
}

define internal range(i64 -28, -1) i64 @lost(i64 noundef %0, i32 noundef %1) unnamed_addr #12 {
  %3 = load i64, ptr @accel_losses, align 8
  %4 = inttoptr i64 %3 to ptr addrspace(1)
  %5 = getelementptr inbounds i64, ptr addrspace(1) %4, i64 %0
  %6 = tail call i64 @add64(ptr addrspace(1) noundef %5, i64 noundef 1) #19
  %7 = tail call i64 @failed(i32 noundef %1) #19
  ret i64 %7
}

define internal i64 @array_value(ptr nocapture noundef readonly %0, i64 noundef %1, i32 noundef %2) unnamed_addr #0 {
  %4 = icmp eq i32 %2, 3
  br i1 %4, label %5, label %10

5:                                                ; preds = %3
  %6 = load i64, ptr @accel_threads, align 8
  %7 = mul i64 %6, %1
  %8 = tail call i64 @thread_number() #20
  %9 = add i64 %7, %8
  br label %10

10:                                               ; preds = %3, %5
  %11 = phi i64 [ %9, %5 ], [ %1, %3 ]
  %12 = getelementptr inbounds i8, ptr %0, i64 16
  %13 = load i64, ptr %12, align 8
  %14 = getelementptr inbounds i8, ptr %0, i64 8
  %15 = load i32, ptr %14, align 8
  %16 = zext i32 %15 to i64
  %17 = getelementptr inbounds i8, ptr %0, i64 24
  %18 = load i64, ptr %17, align 8
  %19 = add i64 %18, %16
  %20 = mul i64 %19, %11
  %21 = add i64 %20, %13
  ret i64 %21
}

define internal i64 @add64(ptr addrspace(1) nocapture noundef %0, i64 noundef %1) unnamed_addr #10 {
  %3 = atomicrmw add ptr addrspace(1) %0, i64 %1 syncscope("device") monotonic, align 8
  ret i64 %3
}

define internal range(i64 -28, 2) i64 @hash_attempt(i64 noundef %0, i32 noundef %1, ptr noundef %2, ptr noundef %3, i64 noundef %4, ptr nocapture noundef %5) unnamed_addr #4 {
  %7 = alloca %struct.search, align 8
  %8 = alloca i32, align 4
  %9 = alloca %struct.search, align 8
  %10 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %11 = getelementptr inbounds i8, ptr %10, i64 16
  %12 = load i64, ptr %11, align 8
  %13 = inttoptr i64 %12 to ptr addrspace(1)
  %14 = tail call i64 @fresh64(ptr addrspace(1) noundef %13) #19
  %15 = load i64, ptr %5, align 8
  %16 = icmp eq i64 %15, -1
  br i1 %16, label %17, label %22

17:                                               ; preds = %6
  %18 = trunc i64 %14 to i32
  %19 = getelementptr inbounds i8, ptr %10, i64 12
  %20 = load i32, ptr %19, align 4
  %21 = icmp ule i32 %20, %18
  br label %22

22:                                               ; preds = %17, %6
  %23 = phi i1 [ false, %6 ], [ %21, %17 ]
  br i1 %16, label %24, label %56

24:                                               ; preds = %22
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %7) #21
  call void @search(ptr dead_on_unwind nonnull writable sret(%struct.search) align 8 %7, ptr noundef nonnull %10, ptr noundef %2, i32 noundef %1, i64 noundef -1) #19
  %25 = load i64, ptr %7, align 8
  %26 = icmp eq i64 %25, -1
  br i1 %26, label %29, label %27

27:                                               ; preds = %24
  %28 = tail call i64 @hash_overwrite(ptr noundef nonnull %10, i64 noundef %25, ptr noundef %3, i64 noundef %4) #19
  br label %53

29:                                               ; preds = %24
  %30 = getelementptr inbounds i8, ptr %7, i64 16
  %31 = load i64, ptr %30, align 8
  %32 = icmp eq i64 %31, -1
  br i1 %32, label %33, label %53

33:                                               ; preds = %29
  %34 = icmp eq i64 %4, 2
  br i1 %34, label %35, label %37

35:                                               ; preds = %33
  %36 = tail call i64 @failed(i32 noundef 2) #19
  br label %53

37:                                               ; preds = %33
  br i1 %23, label %53, label %38

38:                                               ; preds = %37
  %39 = getelementptr inbounds i8, ptr %7, i64 8
  %40 = load i64, ptr %39, align 8
  %41 = icmp eq i64 %40, -1
  br i1 %41, label %53, label %42

42:                                               ; preds = %38
  call void @llvm.lifetime.start.p0(i64 4, ptr nonnull %8) #21
  %43 = tail call ptr addrspace(1) @slot_state(ptr noundef nonnull %10, i64 noundef %40) #19
  %44 = tail call i32 @get32(ptr addrspace(1) noundef %43) #19
  store i32 %44, ptr %8, align 4
  switch i32 %44, label %52 [
    i32 3, label %45
    i32 0, label %45
  ]

45:                                               ; preds = %42, %42
  %46 = tail call ptr addrspace(1) @slot_state(ptr noundef nonnull %10, i64 noundef %40) #19
  %47 = and i32 %1, -4
  %48 = or disjoint i32 %47, 1
  %49 = call i32 @swap32(ptr addrspace(1) noundef %46, ptr noundef nonnull %8, i32 noundef %48) #19
  %50 = icmp eq i32 %49, 0
  br i1 %50, label %52, label %51

51:                                               ; preds = %45
  store i64 %40, ptr %5, align 8
  call void @llvm.lifetime.end.p0(i64 4, ptr nonnull %8) #21
  br label %53

52:                                               ; preds = %45, %42
  call void @llvm.lifetime.end.p0(i64 4, ptr nonnull %8) #21
  br label %53

53:                                               ; preds = %37, %51, %52, %38, %29, %35, %27
  %54 = phi i1 [ false, %27 ], [ false, %35 ], [ false, %52 ], [ false, %29 ], [ false, %38 ], [ true, %51 ], [ true, %37 ]
  %55 = phi i64 [ %28, %27 ], [ %36, %35 ], [ 1, %52 ], [ 1, %29 ], [ 1, %38 ], [ 1, %51 ], [ 1, %37 ]
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %7) #21
  br i1 %54, label %56, label %83

56:                                               ; preds = %53, %22
  tail call void @order() #19
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %9) #21
  %57 = load i64, ptr %5, align 8
  call void @search(ptr dead_on_unwind nonnull writable sret(%struct.search) align 8 %9, ptr noundef nonnull %10, ptr noundef %2, i32 noundef %1, i64 noundef %57) #19
  %58 = load i64, ptr %9, align 8
  %59 = icmp eq i64 %58, -1
  br i1 %59, label %60, label %65

60:                                               ; preds = %56
  %61 = getelementptr inbounds i8, ptr %9, i64 16
  %62 = load i64, ptr %61, align 8
  %63 = load i64, ptr %5, align 8
  %64 = icmp ult i64 %62, %63
  br i1 %64, label %65, label %66

65:                                               ; preds = %60, %56
  tail call void @hash_release(ptr noundef nonnull %10, ptr noundef nonnull %5) #19
  br label %66

66:                                               ; preds = %65, %60
  br i1 %59, label %67, label %81

67:                                               ; preds = %66
  %68 = getelementptr inbounds i8, ptr %9, i64 16
  %69 = load i64, ptr %68, align 8
  %70 = icmp eq i64 %69, -1
  br i1 %70, label %71, label %81

71:                                               ; preds = %67
  br i1 %23, label %75, label %72

72:                                               ; preds = %71
  %73 = load i64, ptr %5, align 8
  %74 = tail call i64 @hash_fill(i64 noundef %0, i64 noundef %73, i32 noundef %1, ptr noundef %2, ptr noundef %3) #19
  br label %81

75:                                               ; preds = %71
  %76 = tail call i64 @fresh64(ptr addrspace(1) noundef %13) #19
  %77 = xor i64 %76, %14
  %78 = icmp ult i64 %77, 4294967296
  br i1 %78, label %79, label %81

79:                                               ; preds = %75
  %80 = tail call i64 @lost(i64 noundef %0, i32 noundef 7) #19
  br label %81

81:                                               ; preds = %79, %75, %66, %67, %72
  %82 = phi i64 [ %74, %72 ], [ 1, %67 ], [ 1, %66 ], [ %80, %79 ], [ 1, %75 ]
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %9) #21
  br label %83

83:                                               ; preds = %53, %81
  %84 = phi i64 [ %82, %81 ], [ %55, %53 ]
  ret i64 %84
}

define internal void @hash_release(ptr nocapture noundef readonly %0, ptr nocapture noundef %1) unnamed_addr #12 {
  %3 = load i64, ptr %1, align 8
  %4 = icmp eq i64 %3, -1
  br i1 %4, label %7, label %5

5:                                                ; preds = %2
  %6 = tail call ptr addrspace(1) @slot_state(ptr noundef %0, i64 noundef %3) #19
  tail call void @set32(ptr addrspace(1) noundef %6, i32 noundef 3) #19
  br label %7

7:                                                ; preds = %5, %2
  store i64 -1, ptr %1, align 8
  ret void
}

define internal i64 @fresh64(ptr addrspace(1) noundef %0) unnamed_addr #13 {
  %2 = load volatile i64, ptr addrspace(1) %0, align 8
  ret i64 %2
}

define internal range(i64 -28, 1) i64 @hash_overwrite(ptr nocapture noundef readonly %0, i64 noundef %1, ptr noundef %2, i64 noundef %3) unnamed_addr #14 {
  %5 = icmp eq i64 %3, 1
  br i1 %5, label %6, label %8

6:                                                ; preds = %4
  %7 = tail call i64 @failed(i32 noundef 17) #19
  br label %13

8:                                                ; preds = %4
  %9 = tail call ptr addrspace(1) @slot_value(ptr noundef %0, i64 noundef %1) #19
  %10 = getelementptr inbounds i8, ptr %0, i64 8
  %11 = load i32, ptr %10, align 8
  %12 = zext i32 %11 to i64
  tail call void @copy(ptr addrspace(1) noundef %9, ptr noundef %2, i64 noundef %12) #19
  br label %13

13:                                               ; preds = %8, %6
  %14 = phi i64 [ %7, %6 ], [ 0, %8 ]
  ret i64 %14
}

define internal range(i32 0, 2) i32 @swap32(ptr addrspace(1) nocapture noundef %0, ptr nocapture noundef %1, i32 noundef %2) unnamed_addr #10 {
  %4 = load i32, ptr %1, align 4
  %5 = cmpxchg ptr addrspace(1) %0, i32 %4, i32 %2 syncscope("device") acq_rel acquire, align 4
  %6 = extractvalue { i32, i1 } %5, 1
  br i1 %6, label %9, label %7

7:                                                ; preds = %3
  %8 = extractvalue { i32, i1 } %5, 0
  store i32 %8, ptr %1, align 4
  br label %9

9:                                                ; preds = %7, %3
  %10 = zext i1 %6 to i32
  ret i32 %10
}

define internal void @order() unnamed_addr #6 {
  fence syncscope("device") seq_cst
  ret void
}

define internal range(i64 -28, 1) i64 @hash_fill(i64 noundef %0, i64 noundef %1, i32 noundef %2, ptr noundef %3, ptr noundef %4) unnamed_addr #3 {
  %6 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %7 = getelementptr inbounds i8, ptr %6, i64 16
  %8 = load i64, ptr %7, align 8
  %9 = inttoptr i64 %8 to ptr addrspace(1)
  %10 = tail call i64 @add64(ptr addrspace(1) noundef %9, i64 noundef 1) #19
  %11 = trunc i64 %10 to i32
  %12 = getelementptr inbounds i8, ptr %6, i64 12
  %13 = load i32, ptr %12, align 4
  %14 = icmp ugt i32 %13, %11
  br i1 %14, label %15, label %21

15:                                               ; preds = %5
  %16 = tail call i32 @key_words(ptr noundef nonnull %6) #19
  %17 = icmp eq i32 %16, 0
  br i1 %17, label %25, label %18

18:                                               ; preds = %15
  %19 = getelementptr inbounds i8, ptr %6, i64 4
  %20 = load i32, ptr %19, align 4
  br label %33

21:                                               ; preds = %5
  %22 = tail call i64 @add64(ptr addrspace(1) noundef %9, i64 noundef -1) #19
  %23 = tail call ptr addrspace(1) @slot_state(ptr noundef nonnull %6, i64 noundef %1) #19
  tail call void @set32(ptr addrspace(1) noundef %23, i32 noundef 3) #19
  %24 = tail call i64 @lost(i64 noundef %0, i32 noundef 7) #19
  br label %42

25:                                               ; preds = %33, %15
  %26 = tail call ptr addrspace(1) @slot_value(ptr noundef nonnull %6, i64 noundef %1) #19
  %27 = getelementptr inbounds i8, ptr %6, i64 8
  %28 = load i32, ptr %27, align 8
  %29 = zext i32 %28 to i64
  tail call void @copy(ptr addrspace(1) noundef %26, ptr noundef %4, i64 noundef %29) #19
  %30 = tail call ptr addrspace(1) @slot_state(ptr noundef nonnull %6, i64 noundef %1) #19
  %31 = and i32 %2, -4
  %32 = or disjoint i32 %31, 2
  tail call void @set32(ptr addrspace(1) noundef %30, i32 noundef %32) #19
  br label %42

33:                                               ; preds = %18, %33
  %34 = phi i32 [ 0, %18 ], [ %39, %33 ]
  %35 = tail call i32 @word(ptr noundef %3, i32 noundef %20, i32 noundef %34) #19
  %36 = tail call ptr addrspace(1) @slot_key(ptr noundef nonnull %6, i64 noundef %1) #19
  %37 = zext nneg i32 %34 to i64
  %38 = getelementptr inbounds i32, ptr addrspace(1) %36, i64 %37
  store i32 %35, ptr addrspace(1) %38, align 4
  %39 = add nuw nsw i32 %34, 1
  %40 = tail call i32 @key_words(ptr noundef nonnull %6) #19
  %41 = icmp ult i32 %39, %40
  br i1 %41, label %33, label %25

42:                                               ; preds = %25, %21
  %43 = phi i64 [ %24, %21 ], [ 0, %25 ]
  ret i64 %43
}

define internal void @copy(ptr addrspace(1) noundef %0, ptr noundef %1, i64 noundef %2) unnamed_addr #15 {
  %4 = ptrtoint ptr addrspace(1) %0 to i64
  %5 = ptrtoint ptr %1 to i64
  %6 = or i64 %5, %4
  %7 = or i64 %6, %2
  %8 = and i64 %7, 7
  %9 = icmp eq i64 %8, 0
  br i1 %9, label %10, label %19

10:                                               ; preds = %3
  %11 = icmp eq i64 %2, 0
  br i1 %11, label %39, label %12

12:                                               ; preds = %10, %12
  %13 = phi i64 [ %17, %12 ], [ 0, %10 ]
  %14 = getelementptr inbounds i8, ptr %1, i64 %13
  %15 = load i64, ptr %14, align 8
  %16 = getelementptr inbounds i8, ptr addrspace(1) %0, i64 %13
  store i64 %15, ptr addrspace(1) %16, align 8
  %17 = add nuw i64 %13, 8
  %18 = icmp ult i64 %17, %2
  br i1 %18, label %12, label %39

19:                                               ; preds = %3
  %20 = and i64 %7, 3
  %21 = icmp eq i64 %20, 0
  %22 = icmp eq i64 %2, 0
  br i1 %21, label %24, label %23

23:                                               ; preds = %19
  br i1 %22, label %39, label %32

24:                                               ; preds = %19
  br i1 %22, label %39, label %25

25:                                               ; preds = %24, %25
  %26 = phi i64 [ %30, %25 ], [ 0, %24 ]
  %27 = getelementptr inbounds i8, ptr %1, i64 %26
  %28 = load i32, ptr %27, align 4
  %29 = getelementptr inbounds i8, ptr addrspace(1) %0, i64 %26
  store i32 %28, ptr addrspace(1) %29, align 4
  %30 = add nuw i64 %26, 4
  %31 = icmp ult i64 %30, %2
  br i1 %31, label %25, label %39

32:                                               ; preds = %23, %32
  %33 = phi i64 [ %37, %32 ], [ 0, %23 ]
  %34 = getelementptr inbounds i8, ptr %1, i64 %33
  %35 = load i8, ptr %34, align 1
  %36 = getelementptr inbounds i8, ptr addrspace(1) %0, i64 %33
  store i8 %35, ptr addrspace(1) %36, align 1
  %37 = add nuw i64 %33, 1
  %38 = icmp ult i64 %37, %2
  br i1 %38, label %32, label %39

39:                                               ; preds = %32, %25, %12, %23, %24, %10
  ret void
}

define internal void @set32(ptr addrspace(1) nocapture noundef writeonly %0, i32 noundef %1) unnamed_addr #10 {
  store atomic i32 %1, ptr addrspace(1) %0 syncscope("device") release, align 4
  ret void
}

declare i64 @accel_spirv_clock() local_unnamed_addr #16

define internal void @commit(ptr addrspace(1) noundef %0, i64 noundef %1, i32 noundef %2) unnamed_addr #4 {
  tail call void @publish() #19
  %4 = trunc i64 %1 to i32
  %5 = add i32 %4, 16
  %6 = or i32 %5, %2
  tail call void @put32(ptr addrspace(1) noundef %0, i32 noundef %6) #19
  ret void
}

define internal void @put32(ptr addrspace(1) noundef %0, i32 noundef %1) unnamed_addr #17 {
  store volatile i32 %1, ptr addrspace(1) %0, align 4
  ret void
}

define internal i64 @own_ring_output(i64 noundef %0, ptr noundef %1, i64 noundef %2) unnamed_addr #0 {
  %4 = alloca i64, align 8
  %5 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %6 = tail call i64 @thread_number() #20
  %7 = getelementptr inbounds i8, ptr %5, i64 8
  %8 = load i32, ptr %7, align 8
  %9 = zext i32 %8 to i64
  %10 = tail call i64 @round8(i64 noundef %9) #19
  %11 = add i64 %10, 8
  %12 = icmp ult i64 %9, %2
  br i1 %12, label %13, label %15

13:                                               ; preds = %3
  %14 = tail call i64 @lost(i64 noundef %0, i32 noundef 7) #19
  br label %58

15:                                               ; preds = %3
  %16 = load i64, ptr @accel_threads, align 8
  %17 = icmp ult i64 %6, %16
  br i1 %17, label %20, label %18

18:                                               ; preds = %15
  %19 = tail call i64 @lost(i64 noundef %0, i32 noundef 28) #19
  br label %58

20:                                               ; preds = %15
  %21 = getelementptr inbounds i8, ptr %5, i64 12
  %22 = load i32, ptr %21, align 4
  %23 = zext i32 %22 to i64
  %24 = mul i64 %11, %23
  %25 = add i64 %24, 24
  %26 = getelementptr inbounds i8, ptr %5, i64 16
  %27 = load i64, ptr %26, align 8
  %28 = mul i64 %25, %6
  %29 = add i64 %28, %27
  %30 = inttoptr i64 %29 to ptr addrspace(1)
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %4) #21
  %31 = getelementptr inbounds i8, ptr addrspace(1) %30, i64 8
  %32 = tail call i64 @fresh64(ptr addrspace(1) noundef %31) #19
  store i64 %32, ptr %4, align 8
  br label %33

33:                                               ; preds = %40, %20
  %34 = load i64, ptr %4, align 8
  %35 = tail call i64 @fresh64(ptr addrspace(1) noundef %30) #19
  %36 = sub i64 %34, %35
  %37 = icmp slt i64 %36, %23
  br i1 %37, label %40, label %38

38:                                               ; preds = %33
  %39 = tail call i64 @lost(i64 noundef %0, i32 noundef 28) #19
  br label %56

40:                                               ; preds = %33
  %41 = add i64 %34, 1
  %42 = call i32 @swap64(ptr addrspace(1) noundef %31, ptr noundef nonnull %4, i64 noundef %41) #19
  %43 = icmp eq i32 %42, 0
  br i1 %43, label %33, label %44

44:                                               ; preds = %40
  %45 = getelementptr inbounds i8, ptr addrspace(1) %30, i64 24
  %46 = load i64, ptr %4, align 8
  %47 = urem i64 %46, %23
  %48 = mul i64 %47, %11
  %49 = getelementptr inbounds i8, ptr addrspace(1) %45, i64 %48
  %50 = tail call i64 @launch_id() #19
  %51 = trunc i64 %50 to i32
  %52 = getelementptr inbounds i8, ptr addrspace(1) %49, i64 4
  store i32 %51, ptr addrspace(1) %52, align 4
  %53 = getelementptr inbounds i8, ptr addrspace(1) %49, i64 8
  tail call void @copy(ptr addrspace(1) noundef %53, ptr noundef %1, i64 noundef %2) #19
  tail call void @publish() #19
  %54 = trunc nuw i64 %2 to i32
  %55 = or i32 %54, -2147483648
  tail call void @put32(ptr addrspace(1) noundef %49, i32 noundef %55) #19
  br label %56

56:                                               ; preds = %44, %38
  %57 = phi i64 [ %39, %38 ], [ 0, %44 ]
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %4) #21
  br label %58

58:                                               ; preds = %56, %18, %13
  %59 = phi i64 [ %14, %13 ], [ %19, %18 ], [ %57, %56 ]
  ret i64 %59
}

define internal range(i64 -28, 1) i64 @ring_output(i64 noundef %0, ptr noundef %1, i64 noundef %2) unnamed_addr #0 {
  %4 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %5 = getelementptr inbounds i8, ptr %4, i64 16
  %6 = load i64, ptr %5, align 8
  %7 = getelementptr inbounds i8, ptr %4, i64 12
  %8 = load i32, ptr %7, align 4
  %9 = tail call ptr addrspace(1) @reserve(i64 noundef %0, i64 noundef %6, i32 noundef %8, i64 noundef %2) #20
  %10 = icmp eq ptr addrspace(1) %9, null
  br i1 %10, label %11, label %13

11:                                               ; preds = %3
  %12 = tail call i64 @failed(i32 noundef 11) #19
  br label %15

13:                                               ; preds = %3
  %14 = getelementptr inbounds i8, ptr addrspace(1) %9, i64 24
  tail call void @copy(ptr addrspace(1) noundef %14, ptr noundef %1, i64 noundef %2) #19
  tail call void @commit(ptr addrspace(1) noundef nonnull %9, i64 noundef %2, i32 noundef 0) #19
  br label %15

15:                                               ; preds = %13, %11
  %16 = phi i64 [ 0, %13 ], [ %12, %11 ]
  ret i64 %16
}

define internal range(i32 0, 2) i32 @swap64(ptr addrspace(1) nocapture noundef %0, ptr nocapture noundef %1, i64 noundef %2) unnamed_addr #10 {
  %4 = load i64, ptr %1, align 8
  %5 = cmpxchg ptr addrspace(1) %0, i64 %4, i64 %2 syncscope("device") monotonic monotonic, align 8
  %6 = extractvalue { i64, i1 } %5, 1
  br i1 %6, label %9, label %7

7:                                                ; preds = %3
  %8 = extractvalue { i64, i1 } %5, 0
  store i64 %8, ptr %1, align 8
  br label %9

9:                                                ; preds = %7, %3
  %10 = zext i1 %6 to i32
  ret i32 %10
}

define internal range(i64 1, 4294967297) i64 @ring_size(i32 noundef %0) unnamed_addr #2 {
  %2 = tail call i32 @llvm.umax.i32(i32 %0, i32 64)
  %3 = tail call i64 @power_of_two(i32 noundef %2) #19
  ret i64 %3
}

define internal i64 @take(ptr addrspace(1) noundef %0, i64 noundef %1, i64 noundef %2) unnamed_addr #0 {
  %4 = alloca %struct.claim, align 8
  %5 = tail call i32 @active() #20
  %6 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %5, i1 true)
  %7 = tail call i32 @lane_id() #20
  %8 = trunc i64 %2 to i32
  %9 = tail call i32 @from_lane(i32 noundef %8, i32 noundef %6) #20
  %10 = icmp eq i32 %9, %8
  %11 = zext i1 %10 to i32
  %12 = tail call i32 @ballot(i32 noundef %11) #20
  %13 = icmp ne i32 %12, %5
  %14 = icmp eq i32 %7, %6
  %15 = select i1 %13, i1 true, i1 %14
  br i1 %15, label %16, label %22

16:                                               ; preds = %3
  call void @llvm.lifetime.start.p0(i64 16, ptr nonnull %4) #21
  %17 = tail call range(i32 0, 33) i32 @llvm.ctpop.i32(i32 %5)
  %18 = select i1 %13, i32 1, i32 %17
  call void @claim(ptr dead_on_unwind nonnull writable sret(%struct.claim) align 8 %4, ptr addrspace(1) noundef %0, i64 noundef %1, i64 noundef %2, i32 noundef %18) #19
  %19 = load i64, ptr %4, align 8
  %20 = getelementptr inbounds i8, ptr %4, i64 8
  %21 = load i32, ptr %20, align 8
  call void @llvm.lifetime.end.p0(i64 16, ptr nonnull %4) #21
  br label %22

22:                                               ; preds = %3, %16
  %23 = phi i32 [ %21, %16 ], [ 0, %3 ]
  %24 = phi i64 [ %19, %16 ], [ 0, %3 ]
  br i1 %13, label %40, label %25

25:                                               ; preds = %22
  %26 = trunc i64 %24 to i32
  %27 = tail call i32 @from_lane(i32 noundef %26, i32 noundef %6) #20
  %28 = lshr i64 %24, 32
  %29 = trunc nuw i64 %28 to i32
  %30 = tail call i32 @from_lane(i32 noundef %29, i32 noundef %6) #20
  %31 = zext i32 %30 to i64
  %32 = shl nuw i64 %31, 32
  %33 = zext i32 %27 to i64
  %34 = or disjoint i64 %32, %33
  %35 = tail call i32 @from_lane(i32 noundef %23, i32 noundef %6) #20
  %36 = shl nsw i32 -1, %7
  %37 = xor i32 %36, -1
  %38 = and i32 %5, %37
  %39 = tail call range(i32 0, 32) i32 @llvm.ctpop.i32(i32 %38)
  br label %40

40:                                               ; preds = %25, %22
  %41 = phi i32 [ %39, %25 ], [ 0, %22 ]
  %42 = phi i32 [ %35, %25 ], [ %23, %22 ]
  %43 = phi i64 [ %34, %25 ], [ %24, %22 ]
  %44 = icmp ult i32 %41, %42
  %45 = zext nneg i32 %41 to i64
  %46 = mul i64 %45, %2
  %47 = add i64 %43, %46
  %48 = select i1 %44, i64 %47, i64 -1
  ret i64 %48
}

define internal i32 @from_lane(i32 noundef %0, i32 noundef %1) unnamed_addr #0 {
  %3 = tail call i32 @accel_spirv_shuffle(i32 noundef %0, i32 noundef %1) #22
  ret i32 %3
}

define internal void @claim(ptr dead_on_unwind noalias nocapture writable writeonly sret(%struct.claim) align 8 %0, ptr addrspace(1) noundef %1, i64 noundef %2, i64 noundef %3, i32 noundef %4) unnamed_addr #13 {
  %6 = getelementptr inbounds i8, ptr addrspace(1) %1, i64 16
  %7 = zext nneg i32 %4 to i64
  %8 = mul i64 %7, %3
  %9 = tail call i64 @add64(ptr addrspace(1) noundef %6, i64 noundef %8) #19
  %10 = getelementptr inbounds i8, ptr addrspace(1) %1, i64 8
  %11 = tail call i64 @fresh64(ptr addrspace(1) noundef %10) #19
  %12 = sub i64 %11, %9
  %13 = add i64 %12, %2
  %14 = icmp slt i64 %13, %3
  br i1 %14, label %20, label %15

15:                                               ; preds = %5
  %16 = icmp ugt i64 %8, %13
  br i1 %16, label %17, label %20

17:                                               ; preds = %15
  %18 = udiv i64 %13, %3
  %19 = trunc i64 %18 to i32
  br label %20

20:                                               ; preds = %15, %17, %5
  %21 = phi i32 [ 0, %5 ], [ %19, %17 ], [ %4, %15 ]
  %22 = icmp ult i32 %21, %4
  br i1 %22, label %23, label %29

23:                                               ; preds = %20
  %24 = sub nsw i32 %4, %21
  %25 = zext i32 %24 to i64
  %26 = mul i64 %25, %3
  %27 = sub i64 0, %26
  %28 = tail call i64 @add64(ptr addrspace(1) noundef %6, i64 noundef %27) #19
  br label %29

29:                                               ; preds = %23, %20
  %30 = icmp eq i32 %21, 0
  br i1 %30, label %35, label %31

31:                                               ; preds = %29
  %32 = zext i32 %21 to i64
  %33 = mul i64 %32, %3
  %34 = tail call i64 @add64(ptr addrspace(1) noundef %1, i64 noundef %33) #19
  br label %35

35:                                               ; preds = %29, %31
  %36 = phi i64 [ %34, %31 ], [ 0, %29 ]
  store i64 %36, ptr %0, align 8
  %37 = getelementptr inbounds i8, ptr %0, i64 8
  store i32 %21, ptr %37, align 8
  ret void
}

declare i32 @llvm.ctpop.i32(i32) #7

declare i32 @accel_spirv_shuffle(i32 noundef, i32 noundef) local_unnamed_addr #16

declare i64 @_Z12get_group_idj(i32 noundef) local_unnamed_addr #16

declare i64 @_Z23get_enqueued_local_sizej(i32 noundef) local_unnamed_addr #16

declare i64 @_Z12get_local_idj(i32 noundef) local_unnamed_addr #16

declare i64 @_Z14get_num_groupsj(i32 noundef) local_unnamed_addr #16

declare i32 @_Z16get_sub_group_idv() local_unnamed_addr #16

declare i32 @_Z22get_sub_group_local_idv() local_unnamed_addr #16

declare i32 @accel_spirv_ballot(i32 noundef) local_unnamed_addr #16

declare void @_Z7barrierj(i32 noundef) local_unnamed_addr #16

define internal i32 @same_word(i32 noundef %0, i32 noundef %1) unnamed_addr #0 {
  %3 = icmp eq i32 %0, 0
  br i1 %3, label %4, label %6

4:                                                ; preds = %6, %2
  %5 = phi i32 [ 0, %2 ], [ %18, %6 ]
  ret i32 %5

6:                                                ; preds = %2, %6
  %7 = phi i32 [ %18, %6 ], [ 0, %2 ]
  %8 = phi i32 [ %20, %6 ], [ %0, %2 ]
  %9 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %8, i1 true)
  %10 = tail call i32 @from_lane(i32 noundef %1, i32 noundef %9) #20
  %11 = icmp eq i32 %10, %1
  %12 = zext i1 %11 to i32
  %13 = tail call i32 @ballot(i32 noundef %12) #20
  %14 = tail call i32 @lane_id() #20
  %15 = shl nuw i32 1, %14
  %16 = and i32 %15, %13
  %17 = icmp eq i32 %16, 0
  %18 = select i1 %17, i32 %7, i32 %13
  %19 = xor i32 %13, -1
  %20 = and i32 %8, %19
  %21 = icmp eq i32 %20, 0
  br i1 %21, label %4, label %6
}

define internal range(i32 0, 33) i32 @distinct_words(i32 noundef %0, i32 noundef %1) unnamed_addr #0 {
  %3 = tail call i32 @lane_id() #20
  %4 = tail call i32 @same_word(i32 noundef %0, i32 noundef %1) #20
  %5 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %4, i1 true)
  %6 = icmp eq i32 %3, %5
  %7 = zext i1 %6 to i32
  %8 = tail call i32 @ballot(i32 noundef %7) #20
  %9 = tail call range(i32 0, 33) i32 @llvm.ctpop.i32(i32 %8)
  ret i32 %9
}

declare i32 @_Z22get_max_sub_group_sizev() local_unnamed_addr #16

declare i64 @llvm.umin.i64(i64, i64) #18

declare i32 @llvm.umax.i32(i32, i32) #18

attributes #0 = { convergent alwaysinline nounwind }
attributes #1 = { mustprogress nocallback nofree nosync nounwind willreturn memory(argmem: readwrite) }
attributes #2 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(none) }
attributes #3 = { nofree alwaysinline norecurse nounwind memory(readwrite, inaccessiblemem: none) }
attributes #4 = { nofree alwaysinline norecurse nounwind }
attributes #5 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(write, argmem: readwrite, inaccessiblemem: none) }
attributes #6 = { mustprogress nofree alwaysinline norecurse nounwind willreturn }
attributes #7 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #8 = { nofree alwaysinline norecurse nosync nounwind memory(argmem: read) }
attributes #9 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(argmem: read) }
attributes #10 = { mustprogress nofree alwaysinline norecurse nounwind willreturn memory(argmem: readwrite) }
attributes #11 = { nofree alwaysinline norecurse nosync nounwind memory(read, inaccessiblemem: none) }
attributes #12 = { mustprogress nofree alwaysinline norecurse nounwind willreturn memory(readwrite, inaccessiblemem: none) }
attributes #13 = { mustprogress nofree alwaysinline norecurse nounwind willreturn memory(argmem: readwrite, inaccessiblemem: readwrite) }
attributes #14 = { nofree alwaysinline norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) }
attributes #15 = { nofree alwaysinline norecurse nosync nounwind memory(argmem: readwrite) }
attributes #16 = { convergent }
attributes #17 = { nofree alwaysinline norecurse nounwind memory(argmem: readwrite, inaccessiblemem: readwrite) }
attributes #18 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #19 = { nobuiltin }
attributes #20 = { convergent nobuiltin }
attributes #21 = { nounwind }
attributes #22 = { convergent nobuiltin nounwind }
