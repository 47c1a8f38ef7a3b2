; LLVM IR of helpers.c for nvptx64: written by tools/build_gpu_helpers, not by hand.

%struct.accel_map = type { i32, i32, i32, i32, i64, i64 }

@accel_maps = external dso_local constant [0 x %struct.accel_map], align 8
@accel_pid_tgid = external dso_local local_unnamed_addr constant i64, align 8
@accel_map_count = external dso_local local_unnamed_addr constant i64, align 8
@accel_threads = external dso_local local_unnamed_addr constant i64, align 8
@accel_losses = external dso_local local_unnamed_addr constant i64, align 8
@accel_printk = external dso_local local_unnamed_addr constant i64, align 8

define dso_local i64 @accel_helper_1(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call fastcc i32 @kind_of(i64 noundef %0) #30
  %7 = icmp eq i32 %6, 1
  br i1 %7, label %8, label %12

8:                                                ; preds = %5
  %9 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %10 = inttoptr i64 %1 to ptr
  %11 = tail call fastcc i64 @hash_lookup(ptr noundef nonnull %9, ptr noundef %10) #30
  br label %18

12:                                               ; preds = %5
  %13 = and i32 %6, 6
  %14 = icmp eq i32 %13, 2
  br i1 %14, label %15, label %18

15:                                               ; preds = %12
  %16 = inttoptr i64 %1 to ptr
  %17 = tail call fastcc i64 @array_lookup(i64 noundef %0, ptr noundef %16, i32 noundef %6) #30
  br label %18

18:                                               ; preds = %15, %12, %8
  %19 = phi i64 [ %11, %8 ], [ %17, %15 ], [ 0, %12 ]
  ret i64 %19
}

declare void @llvm.lifetime.start.p0(i64 immarg, ptr nocapture) #1

define internal fastcc range(i32 0, 6) i32 @kind_of(i64 noundef %0) unnamed_addr #2 {
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

define internal fastcc i64 @hash_lookup(ptr nocapture noundef readonly %0, ptr noundef %1) unnamed_addr #0 {
  %3 = tail call fastcc i32 @hash_of(ptr noundef %0, ptr noundef %1) #30
  %4 = tail call fastcc { i64, i64, i64 } @search(ptr noundef %0, ptr noundef %1, i32 noundef %3, i64 noundef -1) #30
  %5 = extractvalue { i64, i64, i64 } %4, 0
  %6 = icmp eq i64 %5, -1
  br i1 %6, label %10, label %7

7:                                                ; preds = %2
  %8 = tail call fastcc ptr addrspace(1) @slot_value(ptr noundef %0, i64 noundef %5) #30
  %9 = ptrtoint ptr addrspace(1) %8 to i64
  br label %10

10:                                               ; preds = %2, %7
  %11 = phi i64 [ %9, %7 ], [ 0, %2 ]
  ret i64 %11
}

define internal fastcc i64 @array_lookup(i64 noundef %0, ptr noundef %1, i32 noundef %2) unnamed_addr #3 {
  %4 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %5 = tail call fastcc i32 @word(ptr noundef %1, i32 noundef 4, i32 noundef 0) #30
  %6 = getelementptr inbounds i8, ptr %4, i64 12
  %7 = load i32, ptr %6, align 4
  %8 = icmp ult i32 %5, %7
  br i1 %8, label %9, label %17

9:                                                ; preds = %3
  %10 = tail call fastcc i64 @no_room_for_thread(i32 noundef %2) #30
  %11 = icmp eq i64 %10, 0
  br i1 %11, label %14, label %12

12:                                               ; preds = %9
  %13 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 7) #30
  br label %17

14:                                               ; preds = %9
  %15 = zext i32 %5 to i64
  %16 = tail call fastcc i64 @array_value(ptr noundef nonnull %4, i64 noundef %15, i32 noundef %2) #30
  br label %17

17:                                               ; preds = %3, %14, %12
  %18 = phi i64 [ 0, %12 ], [ %16, %14 ], [ 0, %3 ]
  ret i64 %18
}

declare void @llvm.lifetime.end.p0(i64 immarg, ptr nocapture) #1

define dso_local i64 @accel_helper_2(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
  %6 = tail call fastcc i32 @kind_of(i64 noundef %0) #30
  %7 = icmp ugt i64 %3, 2
  br i1 %7, label %8, label %10

8:                                                ; preds = %5
  %9 = tail call fastcc i64 @failed(i32 noundef 22) #30
  br label %25

10:                                               ; preds = %5
  %11 = icmp eq i32 %6, 1
  br i1 %11, label %12, label %16

12:                                               ; preds = %10
  %13 = inttoptr i64 %1 to ptr
  %14 = inttoptr i64 %2 to ptr
  %15 = tail call fastcc i64 @hash_update(i64 noundef %0, ptr noundef %13, ptr noundef %14, i64 noundef %3) #31
  br label %25

16:                                               ; preds = %10
  %17 = and i32 %6, 6
  %18 = icmp eq i32 %17, 2
  br i1 %18, label %19, label %23

19:                                               ; preds = %16
  %20 = inttoptr i64 %1 to ptr
  %21 = inttoptr i64 %2 to ptr
  %22 = tail call fastcc i64 @array_update(i64 noundef %0, ptr noundef %20, ptr noundef %21, i64 noundef %3, i32 noundef %6) #30
  br label %25

23:                                               ; preds = %16
  %24 = tail call fastcc i64 @failed(i32 noundef 22) #30
  br label %25

25:                                               ; preds = %23, %19, %12, %8
  %26 = phi i64 [ %9, %8 ], [ %15, %12 ], [ %22, %19 ], [ %24, %23 ]
  ret i64 %26
}

define internal fastcc range(i64 -28, -1) i64 @failed(i32 noundef %0) unnamed_addr #2 {
  %2 = sub nsw i32 0, %0
  %3 = sext i32 %2 to i64
  ret i64 %3
}

define internal fastcc i64 @hash_update(i64 noundef %0, ptr noundef %1, ptr noundef %2, i64 noundef %3) unnamed_addr #4 {
  %5 = alloca i64, align 8
  %6 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %7 = tail call fastcc i32 @hash_of(ptr noundef nonnull %6, ptr noundef %1) #30
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %5) #32
  store i64 -1, ptr %5, align 8
  br label %12

8:                                                ; preds = %12
  %9 = add nuw nsw i32 %15, 1
  %10 = icmp ugt i32 %15, 16382
  %11 = icmp eq i32 %9, 16384
  br i1 %11, label %20, label %12

12:                                               ; preds = %4, %8
  %13 = phi i1 [ false, %4 ], [ %10, %8 ]
  %14 = phi i64 [ undef, %4 ], [ %19, %8 ]
  %15 = phi i32 [ 0, %4 ], [ %9, %8 ]
  %16 = tail call fastcc i32 @active() #31
  %17 = call fastcc i64 @hash_attempt(i64 noundef %0, i32 noundef %7, ptr noundef %1, ptr noundef %2, i64 noundef %3, ptr noundef nonnull %5) #30
  tail call fastcc void @rejoin(i32 noundef %16) #31
  %18 = icmp eq i64 %17, 1
  %19 = select i1 %18, i64 %14, i64 %17
  br i1 %18, label %8, label %20

20:                                               ; preds = %8, %12
  %21 = phi i1 [ %10, %8 ], [ %13, %12 ]
  br i1 %21, label %22, label %24

22:                                               ; preds = %20
  call fastcc void @hash_release(ptr noundef nonnull %6, ptr noundef nonnull %5) #30
  %23 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 16) #30
  br label %24

24:                                               ; preds = %20, %22
  %25 = phi i64 [ %23, %22 ], [ %19, %20 ]
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %5) #32
  ret i64 %25
}

define internal fastcc range(i64 -28, 1) i64 @array_update(i64 noundef %0, ptr noundef %1, ptr noundef %2, i64 noundef %3, i32 noundef %4) unnamed_addr #0 {
  %6 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %7 = tail call fastcc i32 @word(ptr noundef %1, i32 noundef 4, i32 noundef 0) #30
  %8 = getelementptr inbounds i8, ptr %6, i64 12
  %9 = load i32, ptr %8, align 4
  %10 = icmp ult i32 %7, %9
  br i1 %10, label %11, label %14

11:                                               ; preds = %5
  %12 = tail call fastcc i64 @no_room_for_thread(i32 noundef %4) #30
  %13 = icmp eq i64 %12, 0
  br i1 %13, label %16, label %14

14:                                               ; preds = %11, %5
  %15 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 7) #30
  br label %27

16:                                               ; preds = %11
  %17 = icmp eq i64 %3, 1
  br i1 %17, label %18, label %20

18:                                               ; preds = %16
  %19 = tail call fastcc i64 @failed(i32 noundef 17) #30
  br label %27

20:                                               ; preds = %16
  %21 = zext i32 %7 to i64
  %22 = tail call fastcc i64 @array_value(ptr noundef nonnull %6, i64 noundef %21, i32 noundef %4) #30
  %23 = inttoptr i64 %22 to ptr addrspace(1)
  %24 = getelementptr inbounds i8, ptr %6, i64 8
  %25 = load i32, ptr %24, align 8
  %26 = zext i32 %25 to i64
  tail call fastcc void @copy(ptr addrspace(1) noundef %23, ptr noundef %2, i64 noundef %26) #30
  br label %27

27:                                               ; preds = %20, %18, %14
  %28 = phi i64 [ %15, %14 ], [ %19, %18 ], [ 0, %20 ]
  ret i64 %28
}

define dso_local i64 @accel_helper_3(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call fastcc i32 @kind_of(i64 noundef %0) #30
  %7 = icmp eq i32 %6, 1
  br i1 %7, label %8, label %12

8:                                                ; preds = %5
  %9 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %10 = inttoptr i64 %1 to ptr
  %11 = tail call fastcc i64 @hash_delete(ptr noundef nonnull %9, ptr noundef %10) #30
  br label %14

12:                                               ; preds = %5
  %13 = tail call fastcc i64 @failed(i32 noundef 22) #30
  br label %14

14:                                               ; preds = %12, %8
  %15 = phi i64 [ %11, %8 ], [ %13, %12 ]
  ret i64 %15
}

define internal fastcc i64 @hash_delete(ptr nocapture noundef readonly %0, ptr noundef %1) unnamed_addr #0 {
  %3 = alloca i32, align 4
  %4 = tail call fastcc i32 @hash_of(ptr noundef %0, ptr noundef %1) #30
  %5 = tail call fastcc { i64, i64, i64 } @search(ptr noundef %0, ptr noundef %1, i32 noundef %4, i64 noundef -1) #30
  %6 = extractvalue { i64, i64, i64 } %5, 0
  %7 = icmp eq i64 %6, -1
  br i1 %7, label %8, label %10

8:                                                ; preds = %2
  %9 = tail call fastcc i64 @failed(i32 noundef 2) #30
  br label %32

10:                                               ; preds = %2
  %11 = tail call fastcc ptr addrspace(1) @slot_state(ptr noundef %0, i64 noundef %6) #30
  call void @llvm.lifetime.start.p0(i64 4, ptr nonnull %3) #32
  %12 = and i32 %4, -4
  %13 = or disjoint i32 %12, 2
  store i32 %13, ptr %3, align 4
  %14 = or disjoint i32 %12, 1
  %15 = call fastcc i32 @swap32(ptr addrspace(1) noundef %11, ptr noundef nonnull %3, i32 noundef %14) #30
  %16 = icmp eq i32 %15, 0
  br i1 %16, label %17, label %19

17:                                               ; preds = %10
  %18 = tail call fastcc i64 @failed(i32 noundef 2) #30
  br label %30

19:                                               ; preds = %10
  %20 = tail call fastcc i32 @same_key(ptr noundef %0, i64 noundef %6, ptr noundef %1) #30
  %21 = icmp eq i32 %20, 0
  br i1 %21, label %22, label %25

22:                                               ; preds = %19
  %23 = load i32, ptr %3, align 4
  tail call fastcc void @set32(ptr addrspace(1) noundef %11, i32 noundef %23) #30
  %24 = tail call fastcc i64 @failed(i32 noundef 2) #30
  br label %30

25:                                               ; preds = %19
  %26 = getelementptr inbounds i8, ptr %0, i64 16
  %27 = load i64, ptr %26, align 8
  %28 = inttoptr i64 %27 to ptr addrspace(1)
  %29 = tail call fastcc i64 @add64(ptr addrspace(1) noundef %28, i64 noundef 4294967295) #30
  tail call fastcc void @set32(ptr addrspace(1) noundef %11, i32 noundef 3) #30
  br label %30

30:                                               ; preds = %25, %22, %17
  %31 = phi i64 [ 0, %25 ], [ %24, %22 ], [ %18, %17 ]
  call void @llvm.lifetime.end.p0(i64 4, ptr nonnull %3) #32
  br label %32

32:                                               ; preds = %30, %8
  %33 = phi i64 [ %9, %8 ], [ %31, %30 ]
  ret i64 %33
}

define dso_local noundef i64 @accel_helper_5(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #5 {
  %6 = tail call fastcc i64 @time_ns() #30
  ret i64 %6
}

define internal fastcc noundef i64 @time_ns() unnamed_addr #5 {
  %1 = tail call i64 @llvm.nvvm.read.ptx.sreg.globaltimer()
  ret i64 %1
}

define dso_local i64 @accel_helper_6(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #6 {
  %6 = icmp eq i64 %1, 0
  br i1 %6, label %10, label %7

7:                                                ; preds = %5
  %8 = inttoptr i64 %0 to ptr
  %9 = tail call fastcc i64 @print(ptr noundef %8, i64 noundef %1, i32 noundef 1, i64 noundef %2, i64 noundef %3, i64 noundef %4) #31
  br label %12

10:                                               ; preds = %5
  %11 = tail call fastcc i64 @failed(i32 noundef 22) #30
  br label %12

12:                                               ; preds = %10, %7
  %13 = phi i64 [ %9, %7 ], [ %11, %10 ]
  ret i64 %13
}

define internal fastcc i64 @print(ptr noundef %0, i64 noundef %1, i32 noundef %2, i64 noundef %3, i64 noundef %4, i64 noundef %5) unnamed_addr #6 {
  %7 = tail call i64 @llvm.umin.i64(i64 %1, i64 128)
  %8 = load i64, ptr @accel_map_count, align 8
  %9 = load i64, ptr @accel_printk, align 8
  %10 = add nuw nsw i64 %7, 32
  %11 = tail call fastcc ptr addrspace(1) @reserve(i64 noundef %8, i64 noundef %9, i32 noundef 262144, i64 noundef %10) #31
  %12 = icmp eq ptr addrspace(1) %11, null
  br i1 %12, label %13, label %15

13:                                               ; preds = %6
  %14 = tail call fastcc i64 @failed(i32 noundef 11) #30
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
  tail call fastcc void @copy(ptr addrspace(1) noundef %22, ptr noundef %0, i64 noundef %7) #30
  tail call fastcc void @commit(ptr addrspace(1) noundef nonnull %11, i64 noundef %10, i32 noundef 0) #30
  br label %23

23:                                               ; preds = %15, %13
  %24 = phi i64 [ %7, %15 ], [ %14, %13 ]
  ret i64 %24
}

define dso_local range(i64 0, 4294967296) i64 @accel_helper_8(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  %6 = tail call fastcc i32 @sm_id() #30
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define internal fastcc noundef i32 @sm_id() unnamed_addr #2 {
  %1 = tail call i32 @llvm.nvvm.read.ptx.sreg.smid()
  ret i32 %1
}

define dso_local range(i64 0, 4294967296) i64 @accel_helper_509(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  %6 = tail call fastcc i32 @sm_id() #30
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define dso_local i64 @accel_helper_14(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  %6 = load i64, ptr @accel_pid_tgid, align 8
  ret i64 %6
}

define dso_local i64 @accel_helper_25(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #6 {
  %6 = inttoptr i64 %3 to ptr
  %7 = tail call fastcc i64 @output(i64 noundef %1, ptr noundef %6, i64 noundef %4) #31
  ret i64 %7
}

define internal fastcc i64 @output(i64 noundef %0, ptr noundef %1, i64 noundef %2) unnamed_addr #6 {
  %4 = tail call fastcc i32 @kind_of(i64 noundef %0) #30
  switch i32 %4, label %9 [
    i32 5, label %5
    i32 4, label %7
  ]

5:                                                ; preds = %3
  %6 = tail call fastcc i64 @own_ring_output(i64 noundef %0, ptr noundef %1, i64 noundef %2) #31
  br label %11

7:                                                ; preds = %3
  %8 = tail call fastcc i64 @ring_output(i64 noundef %0, ptr noundef %1, i64 noundef %2) #31
  br label %11

9:                                                ; preds = %3
  %10 = tail call fastcc i64 @failed(i32 noundef 22) #30
  br label %11

11:                                               ; preds = %7, %9, %5
  %12 = phi i64 [ %6, %5 ], [ %8, %7 ], [ %10, %9 ]
  ret i64 %12
}

define dso_local i64 @accel_helper_130(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #6 {
  %6 = icmp ult i64 %3, 4
  br i1 %6, label %9, label %7

7:                                                ; preds = %5
  %8 = tail call fastcc i64 @failed(i32 noundef 22) #30
  br label %12

9:                                                ; preds = %5
  %10 = inttoptr i64 %1 to ptr
  %11 = tail call fastcc i64 @output(i64 noundef %0, ptr noundef %10, i64 noundef %2) #31
  br label %12

12:                                               ; preds = %9, %7
  %13 = phi i64 [ %8, %7 ], [ %11, %9 ]
  ret i64 %13
}

define dso_local i64 @accel_helper_131(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #6 {
  %6 = icmp eq i64 %2, 0
  br i1 %6, label %7, label %23

7:                                                ; preds = %5
  %8 = tail call fastcc i32 @kind_of(i64 noundef %0) #30
  %9 = icmp eq i32 %8, 4
  br i1 %9, label %10, label %23

10:                                               ; preds = %7
  %11 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %12 = getelementptr inbounds i8, ptr %11, i64 16
  %13 = load i64, ptr %12, align 8
  %14 = getelementptr inbounds i8, ptr %11, i64 12
  %15 = load i32, ptr %14, align 4
  %16 = tail call fastcc ptr addrspace(1) @reserve(i64 noundef %0, i64 noundef %13, i32 noundef %15, i64 noundef %1) #31
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

define internal fastcc ptr addrspace(1) @reserve(i64 noundef %0, i64 noundef %1, i32 noundef %2, i64 noundef %3) unnamed_addr #6 {
  %5 = inttoptr i64 %1 to ptr addrspace(1)
  %6 = tail call fastcc i64 @ring_size(i32 noundef %2) #30
  %7 = icmp ult i64 %6, %3
  br i1 %7, label %12, label %8

8:                                                ; preds = %4
  %9 = tail call fastcc i64 @round8(i64 noundef %3) #30
  %10 = add i64 %9, 24
  %11 = tail call fastcc i64 @take(ptr addrspace(1) noundef %5, i64 noundef %6, i64 noundef %10) #31
  br label %12

12:                                               ; preds = %4, %8
  %13 = phi i64 [ %11, %8 ], [ -1, %4 ]
  %14 = icmp eq i64 %13, -1
  br i1 %14, label %15, label %17

15:                                               ; preds = %12
  %16 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 28) #30
  br label %26

17:                                               ; preds = %12
  %18 = getelementptr inbounds i8, ptr addrspace(1) %5, i64 64
  %19 = add nsw i64 %6, -8
  %20 = and i64 %13, %19
  %21 = getelementptr inbounds i8, ptr addrspace(1) %18, i64 %20
  %22 = tail call fastcc i64 @thread_number() #30
  %23 = getelementptr inbounds i8, ptr addrspace(1) %21, i64 8
  store i64 %22, ptr addrspace(1) %23, align 8
  %24 = tail call fastcc i64 @launch_id() #31
  %25 = getelementptr inbounds i8, ptr addrspace(1) %21, i64 16
  store i64 %24, ptr addrspace(1) %25, align 8
  br label %26

26:                                               ; preds = %17, %15
  %27 = phi ptr addrspace(1) [ null, %15 ], [ %21, %17 ]
  ret ptr addrspace(1) %27
}

define dso_local noundef i64 @accel_helper_132(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  tail call fastcc void @end_record(i64 noundef %0, i32 noundef 0) #30
  ret i64 0
}

define internal fastcc void @end_record(i64 noundef %0, i32 noundef %1) unnamed_addr #7 {
  %3 = inttoptr i64 %0 to ptr addrspace(1)
  %4 = getelementptr inbounds i8, ptr addrspace(1) %3, i64 -24
  %5 = load i32, ptr addrspace(1) %4, align 8
  %6 = and i32 %5, 2147483647
  %7 = zext nneg i32 %6 to i64
  tail call fastcc void @commit(ptr addrspace(1) noundef %4, i64 noundef %7, i32 noundef %1) #30
  ret void
}

define dso_local noundef i64 @accel_helper_133(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  tail call fastcc void @end_record(i64 noundef %0, i32 noundef 1073741824) #30
  ret i64 0
}

define dso_local i64 @accel_helper_501(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #6 {
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
  %14 = icmp eq i64 %13, 128
  br i1 %14, label %15, label %7

15:                                               ; preds = %12, %7
  %16 = phi i64 [ 128, %12 ], [ %8, %7 ]
  %17 = inttoptr i64 %0 to ptr
  %18 = tail call fastcc i64 @print(ptr noundef %17, i64 noundef %16, i32 noundef 0, i64 noundef 0, i64 noundef 0, i64 noundef 0) #31
  ret i64 %18
}

define dso_local noundef i64 @accel_helper_502(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #5 {
  %6 = tail call fastcc i64 @time_ns() #30
  ret i64 %6
}

define dso_local noundef i64 @accel_helper_503(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #8 {
  %6 = alloca [3 x i64], align 8
  store i64 %0, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %8, align 8
  %9 = tail call fastcc i32 @block(i32 noundef 0) #30
  %10 = zext nneg i32 %9 to i64
  %11 = tail call fastcc i32 @block(i32 noundef 1) #30
  %12 = zext nneg i32 %11 to i64
  %13 = tail call fastcc i32 @block(i32 noundef 2) #30
  %14 = zext nneg i32 %13 to i64
  call fastcc void @write3(ptr noundef nonnull %6, i64 noundef %10, i64 noundef %12, i64 noundef %14) #30
  ret i64 0
}

define internal fastcc void @write3(ptr nocapture noundef readonly %0, i64 noundef %1, i64 noundef %2, i64 noundef %3) unnamed_addr #9 {
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

define internal fastcc range(i32 0, 2147483647) i32 @block(i32 noundef %0) unnamed_addr #2 {
  %2 = icmp eq i32 %0, 0
  br i1 %2, label %3, label %5

3:                                                ; preds = %1
  %4 = tail call range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  br label %10

5:                                                ; preds = %1
  %6 = icmp eq i32 %0, 1
  %7 = tail call range(i32 0, 65535) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %8 = tail call range(i32 0, 65535) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %9 = select i1 %6, i32 %7, i32 %8
  br label %10

10:                                               ; preds = %5, %3
  %11 = phi i32 [ %4, %3 ], [ %9, %5 ]
  ret i32 %11
}

define dso_local noundef i64 @accel_helper_504(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #8 {
  %6 = alloca [3 x i64], align 8
  store i64 %0, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %8, align 8
  %9 = tail call fastcc i32 @dims(i32 noundef 0) #30
  %10 = zext nneg i32 %9 to i64
  %11 = tail call fastcc i32 @dims(i32 noundef 1) #30
  %12 = zext nneg i32 %11 to i64
  %13 = tail call fastcc i32 @dims(i32 noundef 2) #30
  %14 = zext nneg i32 %13 to i64
  call fastcc void @write3(ptr noundef nonnull %6, i64 noundef %10, i64 noundef %12, i64 noundef %14) #30
  ret i64 0
}

define internal fastcc range(i32 1, 1025) i32 @dims(i32 noundef %0) unnamed_addr #2 {
  %2 = icmp eq i32 %0, 0
  br i1 %2, label %3, label %5

3:                                                ; preds = %1
  %4 = tail call range(i32 1, 1025) i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  br label %10

5:                                                ; preds = %1
  %6 = icmp eq i32 %0, 1
  %7 = tail call range(i32 1, 1025) i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
  %8 = tail call range(i32 1, 65) i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
  %9 = select i1 %6, i32 %7, i32 %8
  br label %10

10:                                               ; preds = %5, %3
  %11 = phi i32 [ %4, %3 ], [ %9, %5 ]
  ret i32 %11
}

define dso_local noundef i64 @accel_helper_505(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #8 {
  %6 = alloca [3 x i64], align 8
  store i64 %0, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %8, align 8
  %9 = tail call fastcc i32 @thread(i32 noundef 0) #30
  %10 = zext nneg i32 %9 to i64
  %11 = tail call fastcc i32 @thread(i32 noundef 1) #30
  %12 = zext nneg i32 %11 to i64
  %13 = tail call fastcc i32 @thread(i32 noundef 2) #30
  %14 = zext nneg i32 %13 to i64
  call fastcc void @write3(ptr noundef nonnull %6, i64 noundef %10, i64 noundef %12, i64 noundef %14) #30
  ret i64 0
}

define internal fastcc range(i32 0, 1024) i32 @thread(i32 noundef %0) unnamed_addr #2 {
  %2 = icmp eq i32 %0, 0
  br i1 %2, label %3, label %5

3:                                                ; preds = %1
  %4 = tail call range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  br label %10

5:                                                ; preds = %1
  %6 = icmp eq i32 %0, 1
  %7 = tail call range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %8 = tail call range(i32 0, 64) i32 @llvm.nvvm.read.ptx.sreg.tid.z()
  %9 = select i1 %6, i32 %7, i32 %8
  br label %10

10:                                               ; preds = %5, %3
  %11 = phi i32 [ %4, %3 ], [ %9, %5 ]
  ret i32 %11
}

define dso_local noundef i64 @accel_helper_506(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  tail call fastcc void @publish() #30
  ret i64 0
}

define internal fastcc void @publish() unnamed_addr #7 {
  tail call void @llvm.nvvm.membar.sys()
  ret void
}

define dso_local noundef i64 @accel_helper_507(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #10 {
  tail call fastcc void @leave() #31
  unreachable
}

define internal fastcc void @leave() unnamed_addr #10 {
  tail call void @llvm.nvvm.exit()
  unreachable
}

define dso_local noundef i64 @accel_helper_508(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #8 {
  %6 = alloca [3 x i64], align 8
  store i64 %0, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %8, align 8
  %9 = tail call fastcc i32 @grid(i32 noundef 0) #30
  %10 = zext nneg i32 %9 to i64
  %11 = tail call fastcc i32 @grid(i32 noundef 1) #30
  %12 = zext nneg i32 %11 to i64
  %13 = tail call fastcc i32 @grid(i32 noundef 2) #30
  %14 = zext nneg i32 %13 to i64
  call fastcc void @write3(ptr noundef nonnull %6, i64 noundef %10, i64 noundef %12, i64 noundef %14) #30
  ret i64 0
}

define internal fastcc range(i32 1, -2147483648) i32 @grid(i32 noundef %0) unnamed_addr #2 {
  %2 = icmp eq i32 %0, 0
  br i1 %2, label %3, label %5

3:                                                ; preds = %1
  %4 = tail call range(i32 1, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  br label %10

5:                                                ; preds = %1
  %6 = icmp eq i32 %0, 1
  %7 = tail call range(i32 1, 65536) i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  %8 = tail call range(i32 1, 65536) i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
  %9 = select i1 %6, i32 %7, i32 %8
  br label %10

10:                                               ; preds = %5, %3
  %11 = phi i32 [ %4, %3 ], [ %9, %5 ]
  ret i32 %11
}

define dso_local range(i64 0, 4294967296) i64 @accel_helper_510(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  %6 = tail call fastcc i32 @warp_id() #30
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define internal fastcc noundef i32 @warp_id() unnamed_addr #2 {
  %1 = tail call i32 @llvm.nvvm.read.ptx.sreg.warpid()
  ret i32 %1
}

define dso_local range(i64 0, 32) i64 @accel_helper_511(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  %6 = tail call fastcc i32 @lane_id() #30
  %7 = zext nneg i32 %6 to i64
  ret i64 %7
}

define internal fastcc noundef range(i32 0, 32) i32 @lane_id() unnamed_addr #2 {
  %1 = tail call range(i32 0, 32) i32 @llvm.nvvm.read.ptx.sreg.laneid()
  ret i32 %1
}

define dso_local range(i64 0, 4294967296) i64 @accel_helper_600(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #11 {
  %6 = tail call fastcc i32 @active() #31
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define internal fastcc i32 @active() unnamed_addr #11 {
  %1 = tail call i32 @llvm.nvvm.activemask()
  ret i32 %1
}

define dso_local range(i64 0, 2) i64 @accel_helper_601(i64 %0, i64 %1, i64 %2, i64 %3, i64 %4) local_unnamed_addr #11 {
  %6 = tail call fastcc i32 @lane_id() #30
  %7 = tail call fastcc i32 @active() #31
  %8 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %7, i1 true)
  %9 = icmp eq i32 %6, %8
  %10 = zext i1 %9 to i64
  ret i64 %10
}

declare i32 @llvm.cttz.i32(i32, i1 immarg) #12

define dso_local range(i64 0, 4294967296) i64 @accel_helper_602(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #11 {
  %6 = tail call fastcc i32 @active() #31
  %7 = icmp ne i64 %0, 0
  %8 = zext i1 %7 to i32
  %9 = tail call fastcc i32 @ballot(i32 noundef %6, i32 noundef %8) #31
  %10 = zext i32 %9 to i64
  ret i64 %10
}

define internal fastcc i32 @ballot(i32 noundef %0, i32 noundef %1) unnamed_addr #11 {
  %3 = icmp ne i32 %1, 0
  %4 = tail call i32 @llvm.nvvm.vote.ballot.sync(i32 %0, i1 %3)
  ret i32 %4
}

define dso_local range(i64 0, 2) i64 @accel_helper_603(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #11 {
  %6 = tail call fastcc i32 @active() #31
  %7 = icmp ne i64 %0, 0
  %8 = zext i1 %7 to i32
  %9 = tail call fastcc i32 @ballot(i32 noundef %6, i32 noundef %8) #31
  %10 = icmp ne i32 %9, 0
  %11 = zext i1 %10 to i64
  ret i64 %11
}

define dso_local range(i64 0, 2) i64 @accel_helper_604(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #11 {
  %6 = tail call fastcc i32 @active() #31
  %7 = icmp eq i64 %0, 0
  %8 = zext i1 %7 to i32
  %9 = tail call fastcc i32 @ballot(i32 noundef %6, i32 noundef %8) #31
  %10 = icmp eq i32 %9, 0
  %11 = zext i1 %10 to i64
  ret i64 %11
}

define dso_local noundef i64 @accel_helper_605(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #6 {
  tail call fastcc void @prefetch(i64 noundef %0) #31
  ret i64 0
}

define internal fastcc void @prefetch(i64 noundef %0) unnamed_addr #6 {
  tail call void asm sideeffect "prefetch.L2 [$0];", "l"(i64 %0) #33
  ret void
}

define dso_local noundef i64 @accel_helper_606(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #5 {
  %6 = tail call fastcc i64 @cycles() #30
  ret i64 %6
}

define internal fastcc noundef i64 @cycles() unnamed_addr #5 {
  %1 = tail call i64 @llvm.nvvm.read.ptx.sreg.clock64()
  ret i64 %1
}

define dso_local i64 @accel_helper_607(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  %6 = tail call fastcc i64 @thread_number() #30
  ret i64 %6
}

define internal fastcc i64 @thread_number() unnamed_addr #2 {
  %1 = tail call fastcc i32 @block(i32 noundef 2) #30
  %2 = zext nneg i32 %1 to i64
  %3 = tail call fastcc i32 @dims(i32 noundef 2) #30
  %4 = zext nneg i32 %3 to i64
  %5 = mul nuw nsw i64 %4, %2
  %6 = tail call fastcc i32 @thread(i32 noundef 2) #30
  %7 = zext nneg i32 %6 to i64
  %8 = add nuw nsw i64 %5, %7
  %9 = tail call fastcc i32 @grid(i32 noundef 1) #30
  %10 = zext nneg i32 %9 to i64
  %11 = tail call fastcc i32 @dims(i32 noundef 1) #30
  %12 = zext nneg i32 %11 to i64
  %13 = mul i64 %8, %10
  %14 = tail call fastcc i32 @block(i32 noundef 1) #30
  %15 = zext nneg i32 %14 to i64
  %16 = tail call fastcc i32 @thread(i32 noundef 1) #30
  %17 = zext nneg i32 %16 to i64
  %18 = add i64 %13, %15
  %19 = mul i64 %18, %12
  %20 = add i64 %19, %17
  %21 = tail call fastcc i32 @grid(i32 noundef 0) #30
  %22 = zext nneg i32 %21 to i64
  %23 = tail call fastcc i32 @dims(i32 noundef 0) #30
  %24 = zext nneg i32 %23 to i64
  %25 = mul i64 %20, %22
  %26 = tail call fastcc i32 @block(i32 noundef 0) #30
  %27 = zext nneg i32 %26 to i64
  %28 = tail call fastcc i32 @thread(i32 noundef 0) #30
  %29 = zext nneg i32 %28 to i64
  %30 = add i64 %25, %27
  %31 = mul i64 %30, %24
  %32 = add i64 %31, %29
  ret i64 %32
}

define dso_local i64 @accel_helper_608(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  %6 = tail call fastcc i64 @block_number() #30
  ret i64 %6
}

define internal fastcc i64 @block_number() unnamed_addr #2 {
  %1 = tail call fastcc i32 @block(i32 noundef 2) #30
  %2 = zext nneg i32 %1 to i64
  %3 = tail call fastcc i32 @grid(i32 noundef 1) #30
  %4 = zext nneg i32 %3 to i64
  %5 = mul nuw nsw i64 %4, %2
  %6 = tail call fastcc i32 @block(i32 noundef 1) #30
  %7 = zext nneg i32 %6 to i64
  %8 = add nuw nsw i64 %5, %7
  %9 = tail call fastcc i32 @grid(i32 noundef 0) #30
  %10 = zext nneg i32 %9 to i64
  %11 = mul i64 %8, %10
  %12 = tail call fastcc i32 @block(i32 noundef 0) #30
  %13 = zext nneg i32 %12 to i64
  %14 = add i64 %11, %13
  ret i64 %14
}

define dso_local noundef i64 @accel_helper_609(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
  tail call fastcc void @block_barrier() #31
  ret i64 0
}

define internal fastcc void @block_barrier() unnamed_addr #4 {
  tail call void @llvm.nvvm.bar.sync(i32 0)
  ret void
}

define dso_local range(i64 0, 33) i64 @accel_helper_610(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #11 {
  %6 = tail call fastcc i32 @active() #31
  %7 = tail call fastcc i32 @distinct(i32 noundef %6, i64 noundef %0) #31
  %8 = zext nneg i32 %7 to i64
  ret i64 %8
}

define internal fastcc range(i32 0, 33) i32 @distinct(i32 noundef %0, i64 noundef %1) unnamed_addr #11 {
  %3 = tail call fastcc i32 @lane_id() #30
  %4 = tail call fastcc i32 @same(i32 noundef %0, i64 noundef %1) #31
  %5 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %4, i1 true)
  %6 = icmp eq i32 %3, %5
  %7 = zext i1 %6 to i32
  %8 = tail call fastcc i32 @ballot(i32 noundef %0, i32 noundef %7) #31
  %9 = tail call range(i32 0, 33) i32 @llvm.ctpop.i32(i32 %8)
  ret i32 %9
}

define dso_local range(i64 0, 33) i64 @accel_helper_611(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #11 {
  %6 = trunc i64 %0 to i32
  %7 = trunc i64 %1 to i32
  %8 = tail call fastcc i32 @bank_passes(i32 noundef %6, i32 noundef %7) #31
  %9 = zext nneg i32 %8 to i64
  ret i64 %9
}

define internal fastcc range(i32 0, 33) i32 @bank_passes(i32 noundef %0, i32 noundef %1) unnamed_addr #11 {
  %3 = icmp ugt i32 %1, 8
  %4 = icmp ult i32 %1, 5
  %5 = select i1 %3, i32 8, i32 16
  %6 = select i1 %4, i32 32, i32 %5
  %7 = select i1 %3, i32 4, i32 3
  %8 = select i1 %4, i32 2, i32 %7
  %9 = lshr i32 %0, %8
  %10 = tail call fastcc i32 @active() #31
  %11 = tail call fastcc i32 @lane_id() #30
  %12 = sub nsw i32 0, %6
  %13 = and i32 %11, %12
  %14 = shl nsw i32 -1, %6
  %15 = xor i32 %14, -1
  %16 = select i1 %4, i32 -1, i32 %15
  %17 = shl i32 %16, %13
  %18 = tail call fastcc i32 @same_word(i32 noundef %10, i32 noundef %9) #31
  %19 = and i32 %17, %18
  %20 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %19, i1 true)
  %21 = icmp eq i32 %11, %20
  %22 = zext i1 %21 to i32
  %23 = tail call fastcc i32 @ballot(i32 noundef %10, i32 noundef %22) #31
  %24 = shl nsw i32 -1, %11
  %25 = xor i32 %24, -1
  %26 = and i32 %23, %25
  %27 = add nsw i32 %6, -1
  %28 = and i32 %9, %27
  %29 = tail call fastcc i32 @same_word(i32 noundef %10, i32 noundef %28) #31
  %30 = and i32 %26, %29
  %31 = and i32 %30, %17
  %32 = tail call range(i32 0, 32) i32 @llvm.ctpop.i32(i32 %31)
  %33 = shl nuw nsw i32 %13, 8
  %34 = select i1 %21, i32 %32, i32 0
  %35 = or disjoint i32 %34, %33
  %36 = tail call fastcc i32 @distinct_words(i32 noundef %10, i32 noundef %35) #31
  ret i32 %36
}

define dso_local range(i64 0, 2) i64 @accel_helper_612(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #11 {
  %6 = tail call fastcc i32 @lane_id() #30
  %7 = tail call fastcc i32 @active() #31
  %8 = tail call fastcc i32 @same(i32 noundef %7, i64 noundef %0) #31
  %9 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %8, i1 true)
  %10 = icmp eq i32 %6, %9
  %11 = zext i1 %10 to i64
  ret i64 %11
}

define internal fastcc i32 @same(i32 noundef %0, i64 noundef %1) unnamed_addr #11 {
  %3 = tail call i32 @llvm.nvvm.match.any.sync.i64(i32 %0, i64 %1)
  ret i32 %3
}

define dso_local range(i64 0, 4294967296) i64 @accel_helper_613(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  %6 = tail call fastcc i32 @stripe_id() #30
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define internal fastcc noundef i32 @stripe_id() unnamed_addr #2 {
  %1 = tail call fastcc i32 @sm_id() #30
  ret i32 %1
}

define dso_local noundef i64 @accel_helper_614(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  ret i64 32
}

define dso_local i64 @accel_launch() local_unnamed_addr #13 {
  %1 = tail call fastcc i64 @launch_id() #31
  ret i64 %1
}

define internal fastcc i64 @launch_id() unnamed_addr #13 {
  %1 = tail call i64 asm "mov.u64 $0, %gridid;", "=l"() #34
  ret i64 %1
}

define dso_local range(i32 0, 2) i32 @accel_is_leader() local_unnamed_addr #11 {
  %1 = tail call i64 @accel_helper_601(i64 poison, i64 poison, i64 poison, i64 poison, i64 poison) #31
  %2 = trunc nuw nsw i64 %1 to i32
  ret i32 %2
}

define internal fastcc { i64, i64, i64 } @search(ptr nocapture noundef readonly %0, ptr noundef readonly %1, i32 noundef %2, i64 noundef %3) unnamed_addr #0 {
  %5 = tail call fastcc i64 @slots(ptr noundef %0) #30
  %6 = zext i32 %2 to i64
  %7 = tail call fastcc i64 @slots(ptr noundef %0) #30
  %8 = add nuw i64 %7, 9223372036854775807
  br label %9

9:                                                ; preds = %4, %43
  %10 = phi i64 [ -1, %4 ], [ %42, %43 ]
  %11 = phi i64 [ -1, %4 ], [ %41, %43 ]
  %12 = phi i64 [ 0, %4 ], [ %44, %43 ]
  %13 = phi i64 [ -1, %4 ], [ %39, %43 ]
  %14 = add nuw nsw i64 %12, %6
  %15 = and i64 %8, %14
  %16 = icmp eq i64 %15, %3
  br i1 %16, label %38, label %17

17:                                               ; preds = %9
  %18 = tail call fastcc ptr addrspace(1) @slot_state(ptr noundef %0, i64 noundef %15) #30
  %19 = tail call fastcc i32 @get32(ptr addrspace(1) noundef %18) #30
  switch i32 %19, label %24 [
    i32 3, label %20
    i32 0, label %20
  ]

20:                                               ; preds = %17, %17
  %21 = icmp eq i32 %19, 0
  %22 = icmp eq i64 %11, -1
  %23 = select i1 %22, i64 %15, i64 %11
  br i1 %21, label %38, label %35

24:                                               ; preds = %17
  %25 = xor i32 %19, %2
  %26 = icmp ult i32 %25, 4
  br i1 %26, label %27, label %38

27:                                               ; preds = %24
  %28 = and i32 %19, 3
  %29 = icmp eq i32 %28, 1
  br i1 %29, label %30, label %32

30:                                               ; preds = %27
  %31 = tail call i64 @llvm.umin.i64(i64 %15, i64 %10)
  br label %35

32:                                               ; preds = %27
  %33 = tail call fastcc i32 @same_key(ptr noundef %0, i64 noundef %15, ptr noundef %1) #30
  %34 = icmp eq i32 %33, 0
  br i1 %34, label %35, label %38

35:                                               ; preds = %30, %32, %20
  %36 = phi i64 [ %23, %20 ], [ %11, %32 ], [ %11, %30 ]
  %37 = phi i64 [ %10, %20 ], [ %10, %32 ], [ %31, %30 ]
  br label %38

38:                                               ; preds = %35, %20, %24, %32, %9
  %39 = phi i64 [ %13, %9 ], [ %13, %35 ], [ %13, %20 ], [ %13, %24 ], [ %15, %32 ]
  %40 = phi i32 [ 4, %9 ], [ 0, %35 ], [ 2, %20 ], [ 4, %24 ], [ 2, %32 ]
  %41 = phi i64 [ %11, %9 ], [ %36, %35 ], [ %23, %20 ], [ %11, %24 ], [ %11, %32 ]
  %42 = phi i64 [ %10, %9 ], [ %37, %35 ], [ %10, %20 ], [ %10, %24 ], [ %10, %32 ]
  switch i32 %40, label %46 [
    i32 0, label %43
    i32 4, label %43
  ]

43:                                               ; preds = %38, %38
  %44 = add nuw nsw i64 %12, 1
  %45 = icmp eq i64 %44, %5
  br i1 %45, label %46, label %9

46:                                               ; preds = %43, %38
  %47 = insertvalue { i64, i64, i64 } poison, i64 %39, 0
  %48 = insertvalue { i64, i64, i64 } %47, i64 %41, 1
  %49 = insertvalue { i64, i64, i64 } %48, i64 %42, 2
  ret { i64, i64, i64 } %49
}

define internal fastcc i32 @hash_of(ptr nocapture noundef readonly %0, ptr noundef %1) unnamed_addr #14 {
  %3 = getelementptr inbounds i8, ptr %0, i64 4
  %4 = load i32, ptr %3, align 4
  %5 = tail call fastcc i32 @key_words(ptr noundef %0) #30
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
  %15 = tail call fastcc i32 @word(ptr noundef %1, i32 noundef %4, i32 noundef %13) #30
  %16 = xor i32 %15, %14
  %17 = mul i32 %16, -1640531535
  %18 = lshr i32 %17, 15
  %19 = xor i32 %18, %17
  %20 = add nuw nsw i32 %13, 1
  %21 = icmp eq i32 %20, %5
  br i1 %21, label %7, label %12
}

define internal fastcc ptr addrspace(1) @slot_value(ptr nocapture noundef readonly %0, i64 noundef %1) unnamed_addr #15 {
  %3 = tail call fastcc ptr addrspace(1) @slot_at(ptr noundef %0, i64 noundef %1) #30
  %4 = getelementptr inbounds i8, ptr addrspace(1) %3, i64 8
  %5 = getelementptr inbounds i8, ptr %0, i64 4
  %6 = load i32, ptr %5, align 4
  %7 = zext i32 %6 to i64
  %8 = tail call fastcc i64 @round8(i64 noundef %7) #30
  %9 = getelementptr inbounds i8, ptr addrspace(1) %4, i64 %8
  ret ptr addrspace(1) %9
}

define internal fastcc range(i64 2, 8589934593) i64 @slots(ptr nocapture noundef readonly %0) unnamed_addr #15 {
  %2 = getelementptr inbounds i8, ptr %0, i64 12
  %3 = load i32, ptr %2, align 4
  %4 = tail call fastcc i64 @power_of_two(i32 noundef %3) #30
  %5 = shl nuw nsw i64 %4, 1
  ret i64 %5
}

define internal fastcc i32 @get32(ptr addrspace(1) nocapture noundef readonly %0) unnamed_addr #16 {
  %2 = load atomic i32, ptr addrspace(1) %0 syncscope("device") acquire, align 4
  ret i32 %2
}

define internal fastcc ptr addrspace(1) @slot_state(ptr nocapture noundef readonly %0, i64 noundef %1) unnamed_addr #15 {
  %3 = tail call fastcc ptr addrspace(1) @slot_at(ptr noundef %0, i64 noundef %1) #30
  ret ptr addrspace(1) %3
}

define internal fastcc range(i32 0, 2) i32 @same_key(ptr nocapture noundef readonly %0, i64 noundef %1, ptr noundef %2) unnamed_addr #17 {
  %4 = tail call fastcc ptr addrspace(1) @slot_key(ptr noundef %0, i64 noundef %1) #30
  %5 = tail call fastcc i32 @key_words(ptr noundef %0) #30
  %6 = icmp eq i32 %5, 0
  br i1 %6, label %13, label %7

7:                                                ; preds = %3
  %8 = getelementptr inbounds i8, ptr %0, i64 4
  %9 = load i32, ptr %8, align 4
  br label %15

10:                                               ; preds = %15
  %11 = icmp eq i32 %23, 0
  %12 = zext i1 %11 to i32
  br label %13

13:                                               ; preds = %10, %3
  %14 = phi i32 [ 1, %3 ], [ %12, %10 ]
  ret i32 %14

15:                                               ; preds = %7, %15
  %16 = phi i32 [ 0, %7 ], [ %24, %15 ]
  %17 = phi i32 [ 0, %7 ], [ %23, %15 ]
  %18 = zext nneg i32 %16 to i64
  %19 = getelementptr inbounds i32, ptr addrspace(1) %4, i64 %18
  %20 = load i32, ptr addrspace(1) %19, align 4
  %21 = tail call fastcc i32 @word(ptr noundef %2, i32 noundef %9, i32 noundef %16) #30
  %22 = xor i32 %21, %20
  %23 = or i32 %22, %17
  %24 = add nuw nsw i32 %16, 1
  %25 = icmp eq i32 %24, %5
  br i1 %25, label %10, label %15
}

define internal fastcc range(i64 1, 4294967297) i64 @power_of_two(i32 noundef %0) unnamed_addr #2 {
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

declare i32 @llvm.ctlz.i32(i32, i1 immarg) #12

define internal fastcc ptr addrspace(1) @slot_at(ptr nocapture noundef readonly %0, i64 noundef %1) unnamed_addr #15 {
  %3 = getelementptr inbounds i8, ptr %0, i64 4
  %4 = load i32, ptr %3, align 4
  %5 = zext i32 %4 to i64
  %6 = tail call fastcc i64 @round8(i64 noundef %5) #30
  %7 = add i64 %6, 8
  %8 = getelementptr inbounds i8, ptr %0, i64 8
  %9 = load i32, ptr %8, align 8
  %10 = zext i32 %9 to i64
  %11 = tail call fastcc i64 @round8(i64 noundef %10) #30
  %12 = add i64 %7, %11
  %13 = getelementptr inbounds i8, ptr %0, i64 16
  %14 = load i64, ptr %13, align 8
  %15 = inttoptr i64 %14 to ptr addrspace(1)
  %16 = getelementptr inbounds i8, ptr addrspace(1) %15, i64 64
  %17 = mul i64 %12, %1
  %18 = getelementptr inbounds i8, ptr addrspace(1) %16, i64 %17
  ret ptr addrspace(1) %18
}

define internal fastcc noundef range(i64 0, -7) i64 @round8(i64 noundef %0) unnamed_addr #2 {
  %2 = add i64 %0, 7
  %3 = and i64 %2, -8
  ret i64 %3
}

define internal fastcc ptr addrspace(1) @slot_key(ptr nocapture noundef readonly %0, i64 noundef %1) unnamed_addr #15 {
  %3 = tail call fastcc ptr addrspace(1) @slot_at(ptr noundef %0, i64 noundef %1) #30
  %4 = getelementptr inbounds i8, ptr addrspace(1) %3, i64 8
  ret ptr addrspace(1) %4
}

define internal fastcc range(i32 0, 1073741824) i32 @key_words(ptr nocapture noundef readonly %0) unnamed_addr #15 {
  %2 = getelementptr inbounds i8, ptr %0, i64 4
  %3 = load i32, ptr %2, align 4
  %4 = add i32 %3, 3
  %5 = lshr i32 %4, 2
  ret i32 %5
}

define internal fastcc i32 @word(ptr noundef %0, i32 noundef %1, i32 noundef %2) unnamed_addr #15 {
  %4 = shl nuw i32 %2, 2
  %5 = add nuw i32 %4, 4
  %6 = icmp ule i32 %5, %1
  %7 = ptrtoint ptr %0 to i64
  %8 = and i64 %7, 3
  %9 = icmp eq i64 %8, 0
  %10 = and i1 %9, %6
  br i1 %10, label %11, label %15

11:                                               ; preds = %3
  %12 = zext i32 %4 to i64
  %13 = getelementptr inbounds i8, ptr %0, i64 %12
  %14 = load i32, ptr %13, align 4
  br label %55

15:                                               ; preds = %3
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

define internal fastcc range(i64 0, 2) i64 @no_room_for_thread(i32 noundef %0) unnamed_addr #2 {
  %2 = icmp eq i32 %0, 3
  br i1 %2, label %3, label %8

3:                                                ; preds = %1
  %4 = tail call fastcc i64 @thread_number() #30
  %5 = load i64, ptr @accel_threads, align 8
  %6 = icmp uge i64 %4, %5
  %7 = zext i1 %6 to i64
  br label %8

8:                                                ; preds = %3, %1
  %9 = phi i64 [ 0, %1 ], [ %7, %3 ]
  ret i64 %9
}

define internal fastcc range(i64 -28, -1) i64 @lost(i64 noundef %0, i32 noundef %1) unnamed_addr #3 {
  %3 = load i64, ptr @accel_losses, align 8
  %4 = inttoptr i64 %3 to ptr addrspace(1)
  %5 = getelementptr inbounds i64, ptr addrspace(1) %4, i64 %0
  %6 = tail call fastcc i64 @add64(ptr addrspace(1) noundef %5, i64 noundef 1) #30
  %7 = tail call fastcc i64 @failed(i32 noundef %1) #30
  ret i64 %7
}

define internal fastcc i64 @array_value(ptr nocapture noundef readonly %0, i64 noundef %1, i32 noundef %2) unnamed_addr #15 {
  %4 = icmp eq i32 %2, 3
  br i1 %4, label %5, label %10

5:                                                ; preds = %3
  %6 = load i64, ptr @accel_threads, align 8
  %7 = mul i64 %6, %1
  %8 = tail call fastcc i64 @thread_number() #30
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

define internal fastcc i64 @add64(ptr addrspace(1) nocapture noundef %0, i64 noundef %1) unnamed_addr #16 {
  %3 = atomicrmw add ptr addrspace(1) %0, i64 %1 syncscope("device") monotonic, align 8
  ret i64 %3
}

define internal fastcc range(i64 -28, 2) i64 @hash_attempt(i64 noundef %0, i32 noundef %1, ptr noundef %2, ptr noundef %3, i64 noundef %4, ptr nocapture noundef %5) unnamed_addr #18 {
  %7 = alloca i32, align 4
  %8 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %9 = getelementptr inbounds i8, ptr %8, i64 16
  %10 = load i64, ptr %9, align 8
  %11 = inttoptr i64 %10 to ptr addrspace(1)
  %12 = tail call fastcc i64 @fresh64(ptr addrspace(1) noundef %11) #30
  %13 = load i64, ptr %5, align 8
  %14 = icmp eq i64 %13, -1
  br i1 %14, label %15, label %20

15:                                               ; preds = %6
  %16 = trunc i64 %12 to i32
  %17 = getelementptr inbounds i8, ptr %8, i64 12
  %18 = load i32, ptr %17, align 4
  %19 = icmp ule i32 %18, %16
  br label %20

20:                                               ; preds = %15, %6
  %21 = phi i1 [ false, %6 ], [ %19, %15 ]
  br i1 %14, label %22, label %53

22:                                               ; preds = %20
  %23 = tail call fastcc { i64, i64, i64 } @search(ptr noundef nonnull %8, ptr noundef %2, i32 noundef %1, i64 noundef -1) #30
  %24 = extractvalue { i64, i64, i64 } %23, 0
  %25 = extractvalue { i64, i64, i64 } %23, 1
  %26 = icmp eq i64 %24, -1
  br i1 %26, label %29, label %27

27:                                               ; preds = %22
  %28 = tail call fastcc i64 @hash_overwrite(ptr noundef nonnull %8, i64 noundef %24, ptr noundef %3, i64 noundef %4) #30
  br label %50

29:                                               ; preds = %22
  %30 = extractvalue { i64, i64, i64 } %23, 2
  %31 = icmp eq i64 %30, -1
  br i1 %31, label %32, label %50

32:                                               ; preds = %29
  %33 = icmp eq i64 %4, 2
  br i1 %33, label %34, label %36

34:                                               ; preds = %32
  %35 = tail call fastcc i64 @failed(i32 noundef 2) #30
  br label %50

36:                                               ; preds = %32
  br i1 %21, label %50, label %37

37:                                               ; preds = %36
  %38 = icmp eq i64 %25, -1
  br i1 %38, label %50, label %39

39:                                               ; preds = %37
  call void @llvm.lifetime.start.p0(i64 4, ptr nonnull %7) #32
  %40 = tail call fastcc ptr addrspace(1) @slot_state(ptr noundef nonnull %8, i64 noundef %25) #30
  %41 = tail call fastcc i32 @get32(ptr addrspace(1) noundef %40) #30
  store i32 %41, ptr %7, align 4
  switch i32 %41, label %49 [
    i32 3, label %42
    i32 0, label %42
  ]

42:                                               ; preds = %39, %39
  %43 = tail call fastcc ptr addrspace(1) @slot_state(ptr noundef nonnull %8, i64 noundef %25) #30
  %44 = and i32 %1, -4
  %45 = or disjoint i32 %44, 1
  %46 = call fastcc i32 @swap32(ptr addrspace(1) noundef %43, ptr noundef nonnull %7, i32 noundef %45) #30
  %47 = icmp eq i32 %46, 0
  br i1 %47, label %49, label %48

48:                                               ; preds = %42
  store i64 %25, ptr %5, align 8
  call void @llvm.lifetime.end.p0(i64 4, ptr nonnull %7) #32
  br label %50

49:                                               ; preds = %42, %39
  call void @llvm.lifetime.end.p0(i64 4, ptr nonnull %7) #32
  br label %50

50:                                               ; preds = %36, %48, %49, %37, %29, %34, %27
  %51 = phi i1 [ false, %27 ], [ false, %34 ], [ false, %49 ], [ false, %29 ], [ false, %37 ], [ true, %48 ], [ true, %36 ]
  %52 = phi i64 [ %28, %27 ], [ %35, %34 ], [ 1, %49 ], [ 1, %29 ], [ 1, %37 ], [ 1, %48 ], [ 1, %36 ]
  br i1 %51, label %53, label %76

53:                                               ; preds = %50, %20
  tail call fastcc void @order() #30
  %54 = load i64, ptr %5, align 8
  %55 = tail call fastcc { i64, i64, i64 } @search(ptr noundef nonnull %8, ptr noundef %2, i32 noundef %1, i64 noundef %54) #30
  %56 = extractvalue { i64, i64, i64 } %55, 0
  %57 = extractvalue { i64, i64, i64 } %55, 2
  %58 = icmp ne i64 %56, -1
  br i1 %58, label %62, label %59

59:                                               ; preds = %53
  %60 = load i64, ptr %5, align 8
  %61 = icmp ult i64 %57, %60
  br i1 %61, label %62, label %63

62:                                               ; preds = %59, %53
  tail call fastcc void @hash_release(ptr noundef nonnull %8, ptr noundef nonnull %5) #30
  br label %63

63:                                               ; preds = %62, %59
  %64 = icmp ne i64 %57, -1
  %65 = select i1 %58, i1 true, i1 %64
  br i1 %65, label %76, label %66

66:                                               ; preds = %63
  br i1 %21, label %70, label %67

67:                                               ; preds = %66
  %68 = load i64, ptr %5, align 8
  %69 = tail call fastcc i64 @hash_fill(i64 noundef %0, i64 noundef %68, i32 noundef %1, ptr noundef %2, ptr noundef %3) #30
  br label %76

70:                                               ; preds = %66
  %71 = tail call fastcc i64 @fresh64(ptr addrspace(1) noundef %11) #30
  %72 = xor i64 %71, %12
  %73 = icmp ult i64 %72, 4294967296
  br i1 %73, label %74, label %76

74:                                               ; preds = %70
  %75 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 7) #30
  br label %76

76:                                               ; preds = %67, %63, %70, %74, %50
  %77 = phi i64 [ %52, %50 ], [ %69, %67 ], [ 1, %63 ], [ %75, %74 ], [ 1, %70 ]
  ret i64 %77
}

define internal fastcc void @rejoin(i32 noundef %0) unnamed_addr #4 {
  tail call void @llvm.nvvm.bar.warp.sync(i32 %0)
  ret void
}

define internal fastcc void @hash_release(ptr nocapture noundef readonly %0, ptr nocapture noundef %1) unnamed_addr #3 {
  %3 = load i64, ptr %1, align 8
  %4 = icmp eq i64 %3, -1
  br i1 %4, label %7, label %5

5:                                                ; preds = %2
  %6 = tail call fastcc ptr addrspace(1) @slot_state(ptr noundef %0, i64 noundef %3) #30
  tail call fastcc void @set32(ptr addrspace(1) noundef %6, i32 noundef 3) #30
  br label %7

7:                                                ; preds = %5, %2
  store i64 -1, ptr %1, align 8
  ret void
}

define internal fastcc i64 @fresh64(ptr addrspace(1) noundef %0) unnamed_addr #19 {
  %2 = load volatile i64, ptr addrspace(1) %0, align 8
  ret i64 %2
}

define internal fastcc range(i64 -28, 1) i64 @hash_overwrite(ptr nocapture noundef readonly %0, i64 noundef %1, ptr noundef %2, i64 noundef %3) unnamed_addr #20 {
  %5 = icmp eq i64 %3, 1
  br i1 %5, label %6, label %8

6:                                                ; preds = %4
  %7 = tail call fastcc i64 @failed(i32 noundef 17) #30
  br label %13

8:                                                ; preds = %4
  %9 = tail call fastcc ptr addrspace(1) @slot_value(ptr noundef %0, i64 noundef %1) #30
  %10 = getelementptr inbounds i8, ptr %0, i64 8
  %11 = load i32, ptr %10, align 8
  %12 = zext i32 %11 to i64
  tail call fastcc void @copy(ptr addrspace(1) noundef %9, ptr noundef %2, i64 noundef %12) #30
  br label %13

13:                                               ; preds = %8, %6
  %14 = phi i64 [ %7, %6 ], [ 0, %8 ]
  ret i64 %14
}

define internal fastcc range(i32 0, 2) i32 @swap32(ptr addrspace(1) nocapture noundef %0, ptr nocapture noundef %1, i32 noundef %2) unnamed_addr #16 {
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

define internal fastcc void @order() unnamed_addr #21 {
  fence syncscope("device") seq_cst
  ret void
}

define internal fastcc range(i64 -28, 1) i64 @hash_fill(i64 noundef %0, i64 noundef %1, i32 noundef %2, ptr noundef %3, ptr noundef %4) unnamed_addr #0 {
  %6 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %7 = getelementptr inbounds i8, ptr %6, i64 16
  %8 = load i64, ptr %7, align 8
  %9 = inttoptr i64 %8 to ptr addrspace(1)
  %10 = tail call fastcc i64 @add64(ptr addrspace(1) noundef %9, i64 noundef 1) #30
  %11 = trunc i64 %10 to i32
  %12 = getelementptr inbounds i8, ptr %6, i64 12
  %13 = load i32, ptr %12, align 4
  %14 = icmp ugt i32 %13, %11
  br i1 %14, label %15, label %21

15:                                               ; preds = %5
  %16 = tail call fastcc i32 @key_words(ptr noundef nonnull %6) #30
  %17 = icmp eq i32 %16, 0
  br i1 %17, label %25, label %18

18:                                               ; preds = %15
  %19 = getelementptr inbounds i8, ptr %6, i64 4
  %20 = load i32, ptr %19, align 4
  br label %33

21:                                               ; preds = %5
  %22 = tail call fastcc i64 @add64(ptr addrspace(1) noundef %9, i64 noundef -1) #30
  %23 = tail call fastcc ptr addrspace(1) @slot_state(ptr noundef nonnull %6, i64 noundef %1) #30
  tail call fastcc void @set32(ptr addrspace(1) noundef %23, i32 noundef 3) #30
  %24 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 7) #30
  br label %42

25:                                               ; preds = %33, %15
  %26 = tail call fastcc ptr addrspace(1) @slot_value(ptr noundef nonnull %6, i64 noundef %1) #30
  %27 = getelementptr inbounds i8, ptr %6, i64 8
  %28 = load i32, ptr %27, align 8
  %29 = zext i32 %28 to i64
  tail call fastcc void @copy(ptr addrspace(1) noundef %26, ptr noundef %4, i64 noundef %29) #30
  %30 = tail call fastcc ptr addrspace(1) @slot_state(ptr noundef nonnull %6, i64 noundef %1) #30
  %31 = and i32 %2, -4
  %32 = or disjoint i32 %31, 2
  tail call fastcc void @set32(ptr addrspace(1) noundef %30, i32 noundef %32) #30
  br label %42

33:                                               ; preds = %18, %33
  %34 = phi i32 [ 0, %18 ], [ %39, %33 ]
  %35 = tail call fastcc i32 @word(ptr noundef %3, i32 noundef %20, i32 noundef %34) #30
  %36 = tail call fastcc ptr addrspace(1) @slot_key(ptr noundef nonnull %6, i64 noundef %1) #30
  %37 = zext nneg i32 %34 to i64
  %38 = getelementptr inbounds i32, ptr addrspace(1) %36, i64 %37
  store i32 %35, ptr addrspace(1) %38, align 4
  %39 = add nuw nsw i32 %34, 1
  %40 = tail call fastcc i32 @key_words(ptr noundef nonnull %6) #30
  %41 = icmp ult i32 %39, %40
  br i1 %41, label %33, label %25

42:                                               ; preds = %25, %21
  %43 = phi i64 [ %24, %21 ], [ 0, %25 ]
  ret i64 %43
}

define internal fastcc void @copy(ptr addrspace(1) noundef %0, ptr noundef %1, i64 noundef %2) unnamed_addr #22 {
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
  %38 = icmp eq i64 %37, %2
  br i1 %38, label %39, label %32

39:                                               ; preds = %32, %25, %12, %23, %24, %10
  ret void
}

define internal fastcc void @set32(ptr addrspace(1) nocapture noundef writeonly %0, i32 noundef %1) unnamed_addr #16 {
  store atomic i32 %1, ptr addrspace(1) %0 syncscope("device") release, align 4
  ret void
}

declare void @llvm.nvvm.bar.warp.sync(i32) #23

declare noundef i64 @llvm.nvvm.read.ptx.sreg.globaltimer() #24

define internal fastcc void @commit(ptr addrspace(1) noundef %0, i64 noundef %1, i32 noundef %2) unnamed_addr #7 {
  tail call fastcc void @publish() #30
  %4 = trunc i64 %1 to i32
  %5 = add i32 %4, 16
  %6 = or i32 %5, %2
  tail call fastcc void @put32(ptr addrspace(1) noundef %0, i32 noundef %6) #30
  ret void
}

define internal fastcc void @put32(ptr addrspace(1) noundef %0, i32 noundef %1) unnamed_addr #25 {
  store volatile i32 %1, ptr addrspace(1) %0, align 4
  ret void
}

declare noundef i32 @llvm.nvvm.read.ptx.sreg.smid() #12

define internal fastcc i64 @own_ring_output(i64 noundef %0, ptr noundef %1, i64 noundef %2) unnamed_addr #6 {
  %4 = alloca i64, align 8
  %5 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %6 = tail call fastcc i64 @thread_number() #30
  %7 = getelementptr inbounds i8, ptr %5, i64 8
  %8 = load i32, ptr %7, align 8
  %9 = zext i32 %8 to i64
  %10 = tail call fastcc i64 @round8(i64 noundef %9) #30
  %11 = add i64 %10, 8
  %12 = icmp ult i64 %9, %2
  br i1 %12, label %13, label %15

13:                                               ; preds = %3
  %14 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 7) #30
  br label %58

15:                                               ; preds = %3
  %16 = load i64, ptr @accel_threads, align 8
  %17 = icmp ult i64 %6, %16
  br i1 %17, label %20, label %18

18:                                               ; preds = %15
  %19 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 28) #30
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
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %4) #32
  %31 = getelementptr inbounds i8, ptr addrspace(1) %30, i64 8
  %32 = tail call fastcc i64 @fresh64(ptr addrspace(1) noundef %31) #30
  store i64 %32, ptr %4, align 8
  br label %33

33:                                               ; preds = %40, %20
  %34 = load i64, ptr %4, align 8
  %35 = tail call fastcc i64 @fresh64(ptr addrspace(1) noundef %30) #30
  %36 = sub i64 %34, %35
  %37 = icmp slt i64 %36, %23
  br i1 %37, label %40, label %38

38:                                               ; preds = %33
  %39 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 28) #30
  br label %56

40:                                               ; preds = %33
  %41 = add i64 %34, 1
  %42 = call fastcc i32 @swap64(ptr addrspace(1) noundef %31, ptr noundef nonnull %4, i64 noundef %41) #30
  %43 = icmp eq i32 %42, 0
  br i1 %43, label %33, label %44

44:                                               ; preds = %40
  %45 = getelementptr inbounds i8, ptr addrspace(1) %30, i64 24
  %46 = load i64, ptr %4, align 8
  %47 = urem i64 %46, %23
  %48 = mul i64 %47, %11
  %49 = getelementptr inbounds i8, ptr addrspace(1) %45, i64 %48
  %50 = tail call fastcc i64 @launch_id() #31
  %51 = trunc i64 %50 to i32
  %52 = getelementptr inbounds i8, ptr addrspace(1) %49, i64 4
  store i32 %51, ptr addrspace(1) %52, align 4
  %53 = getelementptr inbounds i8, ptr addrspace(1) %49, i64 8
  tail call fastcc void @copy(ptr addrspace(1) noundef %53, ptr noundef %1, i64 noundef %2) #30
  tail call fastcc void @publish() #30
  %54 = trunc nuw i64 %2 to i32
  %55 = or i32 %54, -2147483648
  tail call fastcc void @put32(ptr addrspace(1) noundef %49, i32 noundef %55) #30
  br label %56

56:                                               ; preds = %44, %38
  %57 = phi i64 [ %39, %38 ], [ 0, %44 ]
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %4) #32
  br label %58

58:                                               ; preds = %56, %18, %13
  %59 = phi i64 [ %14, %13 ], [ %19, %18 ], [ %57, %56 ]
  ret i64 %59
}

define internal fastcc range(i64 -28, 1) i64 @ring_output(i64 noundef %0, ptr noundef %1, i64 noundef %2) unnamed_addr #6 {
  %4 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %5 = getelementptr inbounds i8, ptr %4, i64 16
  %6 = load i64, ptr %5, align 8
  %7 = getelementptr inbounds i8, ptr %4, i64 12
  %8 = load i32, ptr %7, align 4
  %9 = tail call fastcc ptr addrspace(1) @reserve(i64 noundef %0, i64 noundef %6, i32 noundef %8, i64 noundef %2) #31
  %10 = icmp eq ptr addrspace(1) %9, null
  br i1 %10, label %11, label %13

11:                                               ; preds = %3
  %12 = tail call fastcc i64 @failed(i32 noundef 11) #30
  br label %15

13:                                               ; preds = %3
  %14 = getelementptr inbounds i8, ptr addrspace(1) %9, i64 24
  tail call fastcc void @copy(ptr addrspace(1) noundef %14, ptr noundef %1, i64 noundef %2) #30
  tail call fastcc void @commit(ptr addrspace(1) noundef nonnull %9, i64 noundef %2, i32 noundef 0) #30
  br label %15

15:                                               ; preds = %13, %11
  %16 = phi i64 [ 0, %13 ], [ %12, %11 ]
  ret i64 %16
}

define internal fastcc range(i32 0, 2) i32 @swap64(ptr addrspace(1) nocapture noundef %0, ptr nocapture noundef %1, i64 noundef %2) unnamed_addr #16 {
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

define internal fastcc range(i64 1, 4294967297) i64 @ring_size(i32 noundef %0) unnamed_addr #2 {
  %2 = tail call i32 @llvm.umax.i32(i32 %0, i32 64)
  %3 = tail call fastcc i64 @power_of_two(i32 noundef %2) #30
  ret i64 %3
}

define internal fastcc i64 @take(ptr addrspace(1) noundef %0, i64 noundef %1, i64 noundef %2) unnamed_addr #4 {
  %4 = tail call fastcc i32 @active() #31
  %5 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %4, i1 true)
  %6 = tail call fastcc i32 @lane_id() #30
  %7 = trunc i64 %2 to i32
  %8 = tail call fastcc i32 @from_lane(i32 noundef %4, i32 noundef %7, i32 noundef %5) #31
  %9 = icmp eq i32 %8, %7
  %10 = zext i1 %9 to i32
  %11 = tail call fastcc i32 @ballot(i32 noundef %4, i32 noundef %10) #31
  %12 = icmp ne i32 %11, %4
  %13 = icmp eq i32 %6, %5
  %14 = or i1 %13, %12
  br i1 %14, label %15, label %21

15:                                               ; preds = %3
  %16 = tail call range(i32 0, 33) i32 @llvm.ctpop.i32(i32 %4)
  %17 = select i1 %12, i32 1, i32 %16
  %18 = tail call fastcc { i64, i32 } @claim(ptr addrspace(1) noundef %0, i64 noundef %1, i64 noundef %2, i32 noundef %17) #30
  %19 = extractvalue { i64, i32 } %18, 0
  %20 = extractvalue { i64, i32 } %18, 1
  br label %21

21:                                               ; preds = %3, %15
  %22 = phi i32 [ %20, %15 ], [ 0, %3 ]
  %23 = phi i64 [ %19, %15 ], [ 0, %3 ]
  tail call fastcc void @rejoin(i32 noundef %4) #31
  br i1 %12, label %39, label %24

24:                                               ; preds = %21
  %25 = trunc i64 %23 to i32
  %26 = tail call fastcc i32 @from_lane(i32 noundef %4, i32 noundef %25, i32 noundef %5) #31
  %27 = lshr i64 %23, 32
  %28 = trunc nuw i64 %27 to i32
  %29 = tail call fastcc i32 @from_lane(i32 noundef %4, i32 noundef %28, i32 noundef %5) #31
  %30 = zext i32 %29 to i64
  %31 = shl nuw i64 %30, 32
  %32 = zext i32 %26 to i64
  %33 = or disjoint i64 %31, %32
  %34 = tail call fastcc i32 @from_lane(i32 noundef %4, i32 noundef %22, i32 noundef %5) #31
  %35 = shl nsw i32 -1, %6
  %36 = xor i32 %35, -1
  %37 = and i32 %4, %36
  %38 = tail call range(i32 0, 32) i32 @llvm.ctpop.i32(i32 %37)
  br label %39

39:                                               ; preds = %24, %21
  %40 = phi i32 [ %38, %24 ], [ 0, %21 ]
  %41 = phi i32 [ %34, %24 ], [ %22, %21 ]
  %42 = phi i64 [ %33, %24 ], [ %23, %21 ]
  %43 = icmp ult i32 %40, %41
  br i1 %43, label %44, label %48

44:                                               ; preds = %39
  %45 = zext nneg i32 %40 to i64
  %46 = mul i64 %45, %2
  %47 = add i64 %42, %46
  br label %48

48:                                               ; preds = %39, %44
  %49 = phi i64 [ %47, %44 ], [ -1, %39 ]
  ret i64 %49
}

define internal fastcc i32 @from_lane(i32 noundef %0, i32 noundef %1, i32 noundef %2) unnamed_addr #11 {
  %4 = tail call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 %0, i32 %1, i32 %2, i32 31)
  ret i32 %4
}

define internal fastcc { i64, i32 } @claim(ptr addrspace(1) noundef %0, i64 noundef %1, i64 noundef %2, i32 noundef %3) unnamed_addr #19 {
  %5 = getelementptr inbounds i8, ptr addrspace(1) %0, i64 16
  %6 = zext nneg i32 %3 to i64
  %7 = mul i64 %6, %2
  %8 = tail call fastcc i64 @add64(ptr addrspace(1) noundef %5, i64 noundef %7) #30
  %9 = getelementptr inbounds i8, ptr addrspace(1) %0, i64 8
  %10 = tail call fastcc i64 @fresh64(ptr addrspace(1) noundef %9) #30
  %11 = sub i64 %10, %8
  %12 = add i64 %11, %1
  %13 = icmp slt i64 %12, %2
  br i1 %13, label %19, label %14

14:                                               ; preds = %4
  %15 = icmp ugt i64 %7, %12
  br i1 %15, label %16, label %19

16:                                               ; preds = %14
  %17 = udiv i64 %12, %2
  %18 = trunc i64 %17 to i32
  br label %19

19:                                               ; preds = %14, %16, %4
  %20 = phi i32 [ 0, %4 ], [ %18, %16 ], [ %3, %14 ]
  %21 = icmp ult i32 %20, %3
  br i1 %21, label %22, label %28

22:                                               ; preds = %19
  %23 = sub nsw i32 %3, %20
  %24 = zext i32 %23 to i64
  %25 = mul i64 %24, %2
  %26 = sub i64 0, %25
  %27 = tail call fastcc i64 @add64(ptr addrspace(1) noundef %5, i64 noundef %26) #30
  br label %28

28:                                               ; preds = %22, %19
  %29 = icmp eq i32 %20, 0
  br i1 %29, label %34, label %30

30:                                               ; preds = %28
  %31 = zext i32 %20 to i64
  %32 = mul i64 %31, %2
  %33 = tail call fastcc i64 @add64(ptr addrspace(1) noundef %0, i64 noundef %32) #30
  br label %34

34:                                               ; preds = %28, %30
  %35 = phi i64 [ %33, %30 ], [ 0, %28 ]
  %36 = insertvalue { i64, i32 } poison, i64 %35, 0
  %37 = insertvalue { i64, i32 } %36, i32 %20, 1
  ret { i64, i32 } %37
}

declare i32 @llvm.ctpop.i32(i32) #12

declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32) #26

declare noundef i32 @llvm.nvvm.read.ptx.sreg.ctaid.x() #12

declare noundef i32 @llvm.nvvm.read.ptx.sreg.ctaid.y() #12

declare noundef i32 @llvm.nvvm.read.ptx.sreg.ctaid.z() #12

declare noundef i32 @llvm.nvvm.read.ptx.sreg.ntid.x() #12

declare noundef i32 @llvm.nvvm.read.ptx.sreg.ntid.y() #12

declare noundef i32 @llvm.nvvm.read.ptx.sreg.ntid.z() #12

declare noundef i32 @llvm.nvvm.read.ptx.sreg.tid.x() #12

declare noundef i32 @llvm.nvvm.read.ptx.sreg.tid.y() #12

declare noundef i32 @llvm.nvvm.read.ptx.sreg.tid.z() #12

declare void @llvm.nvvm.membar.sys() #27

declare void @llvm.nvvm.exit() #28

declare noundef i32 @llvm.nvvm.read.ptx.sreg.nctaid.x() #12

declare noundef i32 @llvm.nvvm.read.ptx.sreg.nctaid.y() #12

declare noundef i32 @llvm.nvvm.read.ptx.sreg.nctaid.z() #12

declare noundef i32 @llvm.nvvm.read.ptx.sreg.warpid() #12

declare noundef i32 @llvm.nvvm.read.ptx.sreg.laneid() #12

declare i32 @llvm.nvvm.activemask() #26

declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1) #26

declare noundef i64 @llvm.nvvm.read.ptx.sreg.clock64() #24

declare void @llvm.nvvm.bar.sync(i32) #23

define internal fastcc i32 @same_word(i32 noundef %0, i32 noundef %1) unnamed_addr #11 {
  %3 = tail call i32 @llvm.nvvm.match.any.sync.i32(i32 %0, i32 %1)
  ret i32 %3
}

define internal fastcc range(i32 0, 33) i32 @distinct_words(i32 noundef %0, i32 noundef %1) unnamed_addr #11 {
  %3 = tail call fastcc i32 @lane_id() #30
  %4 = tail call fastcc i32 @same_word(i32 noundef %0, i32 noundef %1) #31
  %5 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %4, i1 true)
  %6 = icmp eq i32 %3, %5
  %7 = zext i1 %6 to i32
  %8 = tail call fastcc i32 @ballot(i32 noundef %0, i32 noundef %7) #31
  %9 = tail call range(i32 0, 33) i32 @llvm.ctpop.i32(i32 %8)
  ret i32 %9
}

declare i32 @llvm.nvvm.match.any.sync.i32(i32, i32) #26

declare i32 @llvm.nvvm.match.any.sync.i64(i32, i64) #26

declare i64 @llvm.umin.i64(i64, i64) #29

declare i32 @llvm.umax.i32(i32, i32) #29

attributes #0 = { nofree alwaysinline norecurse nounwind memory(readwrite, inaccessiblemem: none) }
attributes #1 = { mustprogress nocallback nofree nosync nounwind willreturn memory(argmem: readwrite) }
attributes #2 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(none) }
attributes #3 = { mustprogress nofree alwaysinline norecurse nounwind willreturn memory(readwrite, inaccessiblemem: none) }
attributes #4 = { convergent alwaysinline norecurse nounwind }
attributes #5 = { alwaysinline norecurse nounwind memory(inaccessiblemem: readwrite) }
attributes #6 = { convergent alwaysinline nounwind }
attributes #7 = { alwaysinline norecurse nounwind }
attributes #8 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(write, inaccessiblemem: none) }
attributes #9 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(write, argmem: readwrite, inaccessiblemem: none) }
attributes #10 = { convergent alwaysinline noreturn nounwind memory(inaccessiblemem: readwrite) }
attributes #11 = { convergent alwaysinline norecurse nounwind memory(inaccessiblemem: readwrite) }
attributes #12 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #13 = { convergent nofree alwaysinline nounwind memory(none) }
attributes #14 = { nofree alwaysinline norecurse nosync nounwind memory(argmem: read) }
attributes #15 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(argmem: read) }
attributes #16 = { mustprogress nofree alwaysinline norecurse nounwind willreturn memory(argmem: readwrite) }
attributes #17 = { nofree alwaysinline norecurse nosync nounwind memory(read, inaccessiblemem: none) }
attributes #18 = { nofree alwaysinline norecurse nounwind }
attributes #19 = { mustprogress nofree alwaysinline norecurse nounwind willreturn memory(argmem: readwrite, inaccessiblemem: readwrite) }
attributes #20 = { nofree alwaysinline norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) }
attributes #21 = { mustprogress nofree alwaysinline norecurse nounwind willreturn }
attributes #22 = { nofree alwaysinline norecurse nosync nounwind memory(argmem: readwrite) }
attributes #23 = { convergent nocallback nounwind }
attributes #24 = { nocallback nounwind memory(inaccessiblemem: readwrite) }
attributes #25 = { nofree alwaysinline norecurse nounwind memory(argmem: readwrite, inaccessiblemem: readwrite) }
attributes #26 = { convergent nocallback nounwind memory(inaccessiblemem: readwrite) }
attributes #27 = { nocallback nounwind }
attributes #28 = { convergent noreturn nounwind memory(inaccessiblemem: readwrite) }
attributes #29 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #30 = { nobuiltin }
attributes #31 = { convergent nobuiltin }
attributes #32 = { nounwind }
attributes #33 = { convergent nounwind }
attributes #34 = { convergent nounwind memory(none) }
