; LLVM IR of helpers.c for host: written by tools/build_gpu_helpers, not by hand.

%struct.accel_map = type { i32, i32, i32, i32, i64, i64 }
%struct.accel_self = type { [3 x i32], [3 x i32], [3 x i32], [3 x i32], i32, i32, i32, i32, i64, i64 }
%struct.search = type { i64, i64, i64 }

@accel_maps = external constant [0 x %struct.accel_map], align 8
@accel_pid_tgid = external local_unnamed_addr constant i64, align 8
@accel_self = dso_local local_unnamed_addr global %struct.accel_self zeroinitializer, align 8
@accel_map_count = external local_unnamed_addr constant i64, align 8
@accel_threads = external local_unnamed_addr constant i64, align 8
@accel_losses = external local_unnamed_addr constant i64, align 8
@accel_printk = external local_unnamed_addr constant i64, align 8

define dso_local i64 @accel_helper_1(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call fastcc i32 @kind_of(i64 noundef %0) #24
  %7 = icmp eq i32 %6, 1
  br i1 %7, label %8, label %12

8:                                                ; preds = %5
  %9 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %10 = inttoptr i64 %1 to ptr
  %11 = tail call fastcc i64 @hash_lookup(ptr noundef nonnull %9, ptr noundef %10) #24
  br label %18

12:                                               ; preds = %5
  %13 = and i32 %6, 6
  %14 = icmp eq i32 %13, 2
  br i1 %14, label %15, label %18

15:                                               ; preds = %12
  %16 = inttoptr i64 %1 to ptr
  %17 = tail call fastcc i64 @array_lookup(i64 noundef %0, ptr noundef %16, i32 noundef %6) #24
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
  %3 = alloca %struct.search, align 8
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %3) #25
  %4 = tail call fastcc i32 @hash_of(ptr noundef %0, ptr noundef %1) #24
  call fastcc void @search(ptr dead_on_unwind nonnull writable sret(%struct.search) align 8 %3, ptr noundef %0, ptr noundef %1, i32 noundef %4, i64 noundef -1) #24
  %5 = load i64, ptr %3, align 8
  %6 = icmp eq i64 %5, -1
  br i1 %6, label %10, label %7

7:                                                ; preds = %2
  %8 = tail call fastcc ptr @slot_value(ptr noundef %0, i64 noundef %5) #24
  %9 = ptrtoint ptr %8 to i64
  br label %10

10:                                               ; preds = %2, %7
  %11 = phi i64 [ %9, %7 ], [ 0, %2 ]
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %3) #25
  ret i64 %11
}

define internal fastcc i64 @array_lookup(i64 noundef %0, ptr noundef %1, i32 noundef %2) unnamed_addr #3 {
  %4 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %5 = tail call fastcc i32 @word(ptr noundef %1, i32 noundef 4, i32 noundef 0) #24
  %6 = getelementptr inbounds i8, ptr %4, i64 12
  %7 = load i32, ptr %6, align 4
  %8 = icmp ult i32 %5, %7
  br i1 %8, label %9, label %17

9:                                                ; preds = %3
  %10 = tail call fastcc i64 @no_room_for_thread(i32 noundef %2) #24
  %11 = icmp eq i64 %10, 0
  br i1 %11, label %14, label %12

12:                                               ; preds = %9
  %13 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 7) #24
  br label %17

14:                                               ; preds = %9
  %15 = zext i32 %5 to i64
  %16 = tail call fastcc i64 @array_value(ptr noundef nonnull %4, i64 noundef %15, i32 noundef %2) #24
  br label %17

17:                                               ; preds = %3, %14, %12
  %18 = phi i64 [ 0, %12 ], [ %16, %14 ], [ 0, %3 ]
  ret i64 %18
}

declare void @llvm.lifetime.end.p0(i64 immarg, ptr nocapture) #1

define dso_local i64 @accel_helper_2(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
  %6 = tail call fastcc i32 @kind_of(i64 noundef %0) #24
  %7 = icmp ugt i64 %3, 2
  br i1 %7, label %8, label %10

8:                                                ; preds = %5
  %9 = tail call fastcc i64 @failed(i32 noundef 22) #24
  br label %25

10:                                               ; preds = %5
  %11 = icmp eq i32 %6, 1
  br i1 %11, label %12, label %16

12:                                               ; preds = %10
  %13 = inttoptr i64 %1 to ptr
  %14 = inttoptr i64 %2 to ptr
  %15 = tail call fastcc i64 @hash_update(i64 noundef %0, ptr noundef %13, ptr noundef %14, i64 noundef %3) #24
  br label %25

16:                                               ; preds = %10
  %17 = and i32 %6, 6
  %18 = icmp eq i32 %17, 2
  br i1 %18, label %19, label %23

19:                                               ; preds = %16
  %20 = inttoptr i64 %1 to ptr
  %21 = inttoptr i64 %2 to ptr
  %22 = tail call fastcc i64 @array_update(i64 noundef %0, ptr noundef %20, ptr noundef %21, i64 noundef %3, i32 noundef %6) #24
  br label %25

23:                                               ; preds = %16
  %24 = tail call fastcc i64 @failed(i32 noundef 22) #24
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
  %7 = tail call fastcc i32 @hash_of(ptr noundef nonnull %6, ptr noundef %1) #24
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %5) #25
  store i64 -1, ptr %5, align 8
  %8 = call fastcc i64 @hash_attempt(i64 noundef %0, i32 noundef %7, ptr noundef %1, ptr noundef %2, i64 noundef %3, ptr noundef nonnull %5) #24
  %9 = icmp eq i64 %8, 1
  br i1 %9, label %10, label %22

10:                                               ; preds = %4, %15
  %11 = phi i64 [ %18, %15 ], [ %8, %4 ]
  %12 = phi i32 [ %13, %15 ], [ 0, %4 ]
  %13 = add nuw nsw i32 %12, 1
  %14 = icmp eq i32 %13, 67108864
  br i1 %14, label %19, label %15

15:                                               ; preds = %10
  %16 = call fastcc i64 @hash_attempt(i64 noundef %0, i32 noundef %7, ptr noundef %1, ptr noundef %2, i64 noundef %3, ptr noundef nonnull %5) #24
  %17 = icmp eq i64 %16, 1
  %18 = select i1 %17, i64 %11, i64 %16
  br i1 %17, label %10, label %19

19:                                               ; preds = %10, %15
  %20 = phi i64 [ %18, %15 ], [ %11, %10 ]
  %21 = icmp ugt i32 %12, 67108862
  br label %22

22:                                               ; preds = %19, %4
  %23 = phi i64 [ %8, %4 ], [ %20, %19 ]
  %24 = phi i1 [ false, %4 ], [ %21, %19 ]
  br i1 %24, label %25, label %27

25:                                               ; preds = %22
  call fastcc void @hash_release(ptr noundef nonnull %6, ptr noundef nonnull %5) #24
  %26 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 16) #24
  br label %27

27:                                               ; preds = %22, %25
  %28 = phi i64 [ %26, %25 ], [ %23, %22 ]
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %5) #25
  ret i64 %28
}

define internal fastcc range(i64 -28, 1) i64 @array_update(i64 noundef %0, ptr noundef %1, ptr noundef %2, i64 noundef %3, i32 noundef %4) unnamed_addr #0 {
  %6 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %7 = tail call fastcc i32 @word(ptr noundef %1, i32 noundef 4, i32 noundef 0) #24
  %8 = getelementptr inbounds i8, ptr %6, i64 12
  %9 = load i32, ptr %8, align 4
  %10 = icmp ult i32 %7, %9
  br i1 %10, label %11, label %14

11:                                               ; preds = %5
  %12 = tail call fastcc i64 @no_room_for_thread(i32 noundef %4) #24
  %13 = icmp eq i64 %12, 0
  br i1 %13, label %16, label %14

14:                                               ; preds = %11, %5
  %15 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 7) #24
  br label %27

16:                                               ; preds = %11
  %17 = icmp eq i64 %3, 1
  br i1 %17, label %18, label %20

18:                                               ; preds = %16
  %19 = tail call fastcc i64 @failed(i32 noundef 17) #24
  br label %27

20:                                               ; preds = %16
  %21 = zext i32 %7 to i64
  %22 = tail call fastcc i64 @array_value(ptr noundef nonnull %6, i64 noundef %21, i32 noundef %4) #24
  %23 = inttoptr i64 %22 to ptr
  %24 = getelementptr inbounds i8, ptr %6, i64 8
  %25 = load i32, ptr %24, align 8
  %26 = zext i32 %25 to i64
  tail call fastcc void @copy(ptr noundef %23, ptr noundef %2, i64 noundef %26) #24
  br label %27

27:                                               ; preds = %20, %18, %14
  %28 = phi i64 [ %15, %14 ], [ %19, %18 ], [ 0, %20 ]
  ret i64 %28
}

define dso_local i64 @accel_helper_3(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #0 {
  %6 = tail call fastcc i32 @kind_of(i64 noundef %0) #24
  %7 = icmp eq i32 %6, 1
  br i1 %7, label %8, label %12

8:                                                ; preds = %5
  %9 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %10 = inttoptr i64 %1 to ptr
  %11 = tail call fastcc i64 @hash_delete(ptr noundef nonnull %9, ptr noundef %10) #24
  br label %14

12:                                               ; preds = %5
  %13 = tail call fastcc i64 @failed(i32 noundef 22) #24
  br label %14

14:                                               ; preds = %12, %8
  %15 = phi i64 [ %11, %8 ], [ %13, %12 ]
  ret i64 %15
}

define internal fastcc range(i64 -28, 1) i64 @hash_delete(ptr nocapture noundef readonly %0, ptr noundef %1) unnamed_addr #0 {
  %3 = alloca %struct.search, align 8
  %4 = alloca i32, align 4
  %5 = tail call fastcc i32 @hash_of(ptr noundef %0, ptr noundef %1) #24
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %3) #25
  call fastcc void @search(ptr dead_on_unwind nonnull writable sret(%struct.search) align 8 %3, ptr noundef %0, ptr noundef %1, i32 noundef %5, i64 noundef -1) #24
  %6 = load i64, ptr %3, align 8
  %7 = icmp eq i64 %6, -1
  br i1 %7, label %8, label %10

8:                                                ; preds = %2
  %9 = tail call fastcc i64 @failed(i32 noundef 2) #24
  br label %32

10:                                               ; preds = %2
  %11 = tail call fastcc ptr @slot_state(ptr noundef %0, i64 noundef %6) #24
  call void @llvm.lifetime.start.p0(i64 4, ptr nonnull %4) #25
  %12 = and i32 %5, -4
  %13 = or disjoint i32 %12, 2
  store i32 %13, ptr %4, align 4
  %14 = or disjoint i32 %12, 1
  %15 = call fastcc i32 @swap32(ptr noundef nonnull %11, ptr noundef nonnull %4, i32 noundef %14) #24
  %16 = icmp eq i32 %15, 0
  br i1 %16, label %17, label %19

17:                                               ; preds = %10
  %18 = tail call fastcc i64 @failed(i32 noundef 2) #24
  br label %30

19:                                               ; preds = %10
  %20 = tail call fastcc i32 @same_key(ptr noundef %0, i64 noundef %6, ptr noundef %1) #24
  %21 = icmp eq i32 %20, 0
  br i1 %21, label %22, label %25

22:                                               ; preds = %19
  %23 = load i32, ptr %4, align 4
  tail call fastcc void @set32(ptr noundef nonnull %11, i32 noundef %23) #24
  %24 = tail call fastcc i64 @failed(i32 noundef 2) #24
  br label %30

25:                                               ; preds = %19
  %26 = getelementptr inbounds i8, ptr %0, i64 16
  %27 = load i64, ptr %26, align 8
  %28 = inttoptr i64 %27 to ptr
  %29 = tail call fastcc i64 @add64(ptr noundef %28, i64 noundef 4294967295) #24
  tail call fastcc void @set32(ptr noundef nonnull %11, i32 noundef 3) #24
  br label %30

30:                                               ; preds = %25, %22, %17
  %31 = phi i64 [ 0, %25 ], [ %24, %22 ], [ %18, %17 ]
  call void @llvm.lifetime.end.p0(i64 4, ptr nonnull %4) #25
  br label %32

32:                                               ; preds = %30, %8
  %33 = phi i64 [ %9, %8 ], [ %31, %30 ]
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %3) #25
  ret i64 %33
}

define dso_local i64 @accel_helper_5(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #5 {
  %6 = tail call fastcc i64 @time_ns() #24
  ret i64 %6
}

define internal fastcc i64 @time_ns() unnamed_addr #6 {
  %1 = load i64, ptr getelementptr inbounds (i8, ptr @accel_self, i64 64), align 8
  %2 = add i64 %1, 1
  store i64 %2, ptr getelementptr inbounds (i8, ptr @accel_self, i64 64), align 8
  ret i64 %2
}

define dso_local i64 @accel_helper_6(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
  %6 = icmp eq i64 %1, 0
  br i1 %6, label %10, label %7

7:                                                ; preds = %5
  %8 = inttoptr i64 %0 to ptr
  %9 = tail call fastcc i64 @print(ptr noundef %8, i64 noundef %1, i32 noundef 1, i64 noundef %2, i64 noundef %3, i64 noundef %4) #24
  br label %12

10:                                               ; preds = %5
  %11 = tail call fastcc i64 @failed(i32 noundef 22) #24
  br label %12

12:                                               ; preds = %10, %7
  %13 = phi i64 [ %9, %7 ], [ %11, %10 ]
  ret i64 %13
}

define internal fastcc i64 @print(ptr noundef %0, i64 noundef %1, i32 noundef %2, i64 noundef %3, i64 noundef %4, i64 noundef %5) unnamed_addr #4 {
  %7 = tail call i64 @llvm.umin.i64(i64 %1, i64 128)
  %8 = load i64, ptr @accel_map_count, align 8
  %9 = load i64, ptr @accel_printk, align 8
  %10 = add nuw nsw i64 %7, 32
  %11 = tail call fastcc ptr @reserve(i64 noundef %8, i64 noundef %9, i32 noundef 262144, i64 noundef %10) #24
  %12 = icmp eq ptr %11, null
  br i1 %12, label %13, label %15

13:                                               ; preds = %6
  %14 = tail call fastcc i64 @failed(i32 noundef 11) #24
  br label %23

15:                                               ; preds = %6
  %16 = getelementptr inbounds i8, ptr %11, i64 24
  store i64 %3, ptr %16, align 8
  %17 = getelementptr inbounds i8, ptr %11, i64 32
  store i64 %4, ptr %17, align 8
  %18 = getelementptr inbounds i8, ptr %11, i64 40
  store i64 %5, ptr %18, align 8
  %19 = getelementptr inbounds i8, ptr %11, i64 48
  store i32 %2, ptr %19, align 8
  %20 = trunc nuw nsw i64 %7 to i32
  %21 = getelementptr inbounds i8, ptr %11, i64 52
  store i32 %20, ptr %21, align 4
  %22 = getelementptr inbounds i8, ptr %11, i64 56
  tail call fastcc void @copy(ptr noundef nonnull %22, ptr noundef %0, i64 noundef %7) #24
  tail call fastcc void @commit(ptr noundef nonnull %11, i64 noundef %10, i32 noundef 0) #24
  br label %23

23:                                               ; preds = %15, %13
  %24 = phi i64 [ %7, %15 ], [ %14, %13 ]
  ret i64 %24
}

define dso_local range(i64 0, 4294967296) i64 @accel_helper_8(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i32 @sm_id() #24
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define internal fastcc i32 @sm_id() unnamed_addr #8 {
  %1 = load i32, ptr getelementptr inbounds (i8, ptr @accel_self, i64 48), align 8
  ret i32 %1
}

define dso_local range(i64 0, 4294967296) i64 @accel_helper_509(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i32 @sm_id() #24
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define dso_local i64 @accel_helper_14(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  %6 = load i64, ptr @accel_pid_tgid, align 8
  ret i64 %6
}

define dso_local i64 @accel_helper_25(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
  %6 = inttoptr i64 %3 to ptr
  %7 = tail call fastcc i64 @output(i64 noundef %1, ptr noundef %6, i64 noundef %4) #24
  ret i64 %7
}

define internal fastcc i64 @output(i64 noundef %0, ptr noundef %1, i64 noundef %2) unnamed_addr #4 {
  %4 = tail call fastcc i32 @kind_of(i64 noundef %0) #24
  switch i32 %4, label %9 [
    i32 5, label %5
    i32 4, label %7
  ]

5:                                                ; preds = %3
  %6 = tail call fastcc i64 @own_ring_output(i64 noundef %0, ptr noundef %1, i64 noundef %2) #24
  br label %11

7:                                                ; preds = %3
  %8 = tail call fastcc i64 @ring_output(i64 noundef %0, ptr noundef %1, i64 noundef %2) #24
  br label %11

9:                                                ; preds = %3
  %10 = tail call fastcc i64 @failed(i32 noundef 22) #24
  br label %11

11:                                               ; preds = %7, %9, %5
  %12 = phi i64 [ %6, %5 ], [ %8, %7 ], [ %10, %9 ]
  ret i64 %12
}

define dso_local i64 @accel_helper_130(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
  %6 = icmp ult i64 %3, 4
  br i1 %6, label %9, label %7

7:                                                ; preds = %5
  %8 = tail call fastcc i64 @failed(i32 noundef 22) #24
  br label %12

9:                                                ; preds = %5
  %10 = inttoptr i64 %1 to ptr
  %11 = tail call fastcc i64 @output(i64 noundef %0, ptr noundef %10, i64 noundef %2) #24
  br label %12

12:                                               ; preds = %9, %7
  %13 = phi i64 [ %8, %7 ], [ %11, %9 ]
  ret i64 %13
}

define dso_local i64 @accel_helper_131(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #9 {
  %6 = icmp eq i64 %2, 0
  br i1 %6, label %7, label %23

7:                                                ; preds = %5
  %8 = tail call fastcc i32 @kind_of(i64 noundef %0) #24
  %9 = icmp eq i32 %8, 4
  br i1 %9, label %10, label %23

10:                                               ; preds = %7
  %11 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %12 = getelementptr inbounds i8, ptr %11, i64 16
  %13 = load i64, ptr %12, align 8
  %14 = getelementptr inbounds i8, ptr %11, i64 12
  %15 = load i32, ptr %14, align 4
  %16 = tail call fastcc ptr @reserve(i64 noundef %0, i64 noundef %13, i32 noundef %15, i64 noundef %1) #24
  %17 = icmp eq ptr %16, null
  br i1 %17, label %23, label %18

18:                                               ; preds = %10
  %19 = trunc i64 %1 to i32
  %20 = or i32 %19, -2147483648
  store i32 %20, ptr %16, align 8
  %21 = getelementptr inbounds i8, ptr %16, i64 24
  %22 = ptrtoint ptr %21 to i64
  br label %23

23:                                               ; preds = %18, %10, %5, %7
  %24 = phi i64 [ 0, %7 ], [ 0, %5 ], [ %22, %18 ], [ 0, %10 ]
  ret i64 %24
}

define internal fastcc ptr @reserve(i64 noundef %0, i64 noundef %1, i32 noundef %2, i64 noundef %3) unnamed_addr #9 {
  %5 = inttoptr i64 %1 to ptr
  %6 = tail call fastcc i64 @ring_size(i32 noundef %2) #24
  %7 = icmp ult i64 %6, %3
  br i1 %7, label %12, label %8

8:                                                ; preds = %4
  %9 = tail call fastcc i64 @round8(i64 noundef %3) #24
  %10 = add i64 %9, 24
  %11 = tail call fastcc i64 @take(ptr noundef %5, i64 noundef %6, i64 noundef %10) #24
  br label %12

12:                                               ; preds = %4, %8
  %13 = phi i64 [ %11, %8 ], [ -1, %4 ]
  %14 = icmp eq i64 %13, -1
  br i1 %14, label %15, label %17

15:                                               ; preds = %12
  %16 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 28) #24
  br label %26

17:                                               ; preds = %12
  %18 = getelementptr inbounds i8, ptr %5, i64 64
  %19 = add nsw i64 %6, -8
  %20 = and i64 %13, %19
  %21 = getelementptr inbounds i8, ptr %18, i64 %20
  %22 = tail call fastcc i64 @thread_number() #24
  %23 = getelementptr inbounds i8, ptr %21, i64 8
  store i64 %22, ptr %23, align 8
  %24 = tail call fastcc i64 @launch_id() #24
  %25 = getelementptr inbounds i8, ptr %21, i64 16
  store i64 %24, ptr %25, align 8
  br label %26

26:                                               ; preds = %17, %15
  %27 = phi ptr [ null, %15 ], [ %21, %17 ]
  ret ptr %27
}

define dso_local noundef i64 @accel_helper_132(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
  tail call fastcc void @end_record(i64 noundef %0, i32 noundef 0) #24
  ret i64 0
}

define internal fastcc void @end_record(i64 noundef %0, i32 noundef %1) unnamed_addr #4 {
  %3 = inttoptr i64 %0 to ptr
  %4 = getelementptr inbounds i8, ptr %3, i64 -24
  %5 = load i32, ptr %4, align 8
  %6 = and i32 %5, 2147483647
  %7 = zext nneg i32 %6 to i64
  tail call fastcc void @commit(ptr noundef nonnull %4, i64 noundef %7, i32 noundef %1) #24
  ret void
}

define dso_local noundef i64 @accel_helper_133(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
  tail call fastcc void @end_record(i64 noundef %0, i32 noundef 1073741824) #24
  ret i64 0
}

define dso_local i64 @accel_helper_501(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #4 {
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
  %18 = tail call fastcc i64 @print(ptr noundef %17, i64 noundef %16, i32 noundef 0, i64 noundef 0, i64 noundef 0, i64 noundef 0) #24
  ret i64 %18
}

define dso_local i64 @accel_helper_502(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #5 {
  %6 = tail call fastcc i64 @time_ns() #24
  ret i64 %6
}

define dso_local noundef i64 @accel_helper_503(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #5 {
  %6 = alloca [3 x i64], align 8
  store i64 %0, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %8, align 8
  %9 = tail call fastcc i32 @block(i32 noundef 0) #24
  %10 = zext i32 %9 to i64
  %11 = tail call fastcc i32 @block(i32 noundef 1) #24
  %12 = zext i32 %11 to i64
  %13 = tail call fastcc i32 @block(i32 noundef 2) #24
  %14 = zext i32 %13 to i64
  call fastcc void @write3(ptr noundef nonnull %6, i64 noundef %10, i64 noundef %12, i64 noundef %14) #24
  ret i64 0
}

define internal fastcc void @write3(ptr nocapture noundef readonly %0, i64 noundef %1, i64 noundef %2, i64 noundef %3) unnamed_addr #10 {
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

define internal fastcc i32 @block(i32 noundef %0) unnamed_addr #8 {
  %2 = zext nneg i32 %0 to i64
  %3 = getelementptr inbounds [3 x i32], ptr @accel_self, i64 0, i64 %2
  %4 = load i32, ptr %3, align 4
  ret i32 %4
}

define dso_local noundef i64 @accel_helper_504(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #5 {
  %6 = alloca [3 x i64], align 8
  store i64 %0, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %8, align 8
  %9 = tail call fastcc i32 @dims(i32 noundef 0) #24
  %10 = zext i32 %9 to i64
  %11 = tail call fastcc i32 @dims(i32 noundef 1) #24
  %12 = zext i32 %11 to i64
  %13 = tail call fastcc i32 @dims(i32 noundef 2) #24
  %14 = zext i32 %13 to i64
  call fastcc void @write3(ptr noundef nonnull %6, i64 noundef %10, i64 noundef %12, i64 noundef %14) #24
  ret i64 0
}

define internal fastcc i32 @dims(i32 noundef %0) unnamed_addr #8 {
  %2 = zext nneg i32 %0 to i64
  %3 = getelementptr inbounds [3 x i32], ptr getelementptr inbounds (i8, ptr @accel_self, i64 36), i64 0, i64 %2
  %4 = load i32, ptr %3, align 4
  ret i32 %4
}

define dso_local noundef i64 @accel_helper_505(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #5 {
  %6 = alloca [3 x i64], align 8
  store i64 %0, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %8, align 8
  %9 = tail call fastcc i32 @thread(i32 noundef 0) #24
  %10 = zext i32 %9 to i64
  %11 = tail call fastcc i32 @thread(i32 noundef 1) #24
  %12 = zext i32 %11 to i64
  %13 = tail call fastcc i32 @thread(i32 noundef 2) #24
  %14 = zext i32 %13 to i64
  call fastcc void @write3(ptr noundef nonnull %6, i64 noundef %10, i64 noundef %12, i64 noundef %14) #24
  ret i64 0
}

define internal fastcc i32 @thread(i32 noundef %0) unnamed_addr #8 {
  %2 = zext nneg i32 %0 to i64
  %3 = getelementptr inbounds [3 x i32], ptr getelementptr inbounds (i8, ptr @accel_self, i64 24), i64 0, i64 %2
  %4 = load i32, ptr %3, align 4
  ret i32 %4
}

define dso_local noundef i64 @accel_helper_506(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #9 {
  tail call fastcc void @publish() #24
  ret i64 0
}

define internal fastcc void @publish() unnamed_addr #9 {
  fence seq_cst
  ret void
}

define dso_local noundef i64 @accel_helper_507(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #11 {
  tail call fastcc void @leave() #24
  ret i64 0
}

define internal fastcc void @leave() unnamed_addr #12 {
  store i32 1, ptr getelementptr inbounds (i8, ptr @accel_self, i64 60), align 4
  ret void
}

define dso_local noundef i64 @accel_helper_508(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #5 {
  %6 = alloca [3 x i64], align 8
  store i64 %0, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %6, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %6, i64 16
  store i64 %2, ptr %8, align 8
  %9 = tail call fastcc i32 @grid(i32 noundef 0) #24
  %10 = zext i32 %9 to i64
  %11 = tail call fastcc i32 @grid(i32 noundef 1) #24
  %12 = zext i32 %11 to i64
  %13 = tail call fastcc i32 @grid(i32 noundef 2) #24
  %14 = zext i32 %13 to i64
  call fastcc void @write3(ptr noundef nonnull %6, i64 noundef %10, i64 noundef %12, i64 noundef %14) #24
  ret i64 0
}

define internal fastcc i32 @grid(i32 noundef %0) unnamed_addr #8 {
  %2 = zext nneg i32 %0 to i64
  %3 = getelementptr inbounds [3 x i32], ptr getelementptr inbounds (i8, ptr @accel_self, i64 12), i64 0, i64 %2
  %4 = load i32, ptr %3, align 4
  ret i32 %4
}

define dso_local range(i64 0, 4294967296) i64 @accel_helper_510(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i32 @warp_id() #24
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define internal fastcc i32 @warp_id() unnamed_addr #8 {
  %1 = load i32, ptr getelementptr inbounds (i8, ptr @accel_self, i64 52), align 4
  ret i32 %1
}

define dso_local range(i64 0, 4294967296) i64 @accel_helper_511(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i32 @lane_id() #24
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define internal fastcc i32 @lane_id() unnamed_addr #8 {
  %1 = load i32, ptr getelementptr inbounds (i8, ptr @accel_self, i64 56), align 8
  ret i32 %1
}

define dso_local range(i64 0, 4294967296) i64 @accel_helper_600(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i32 @active() #24
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define internal fastcc i32 @active() unnamed_addr #8 {
  %1 = load i32, ptr getelementptr inbounds (i8, ptr @accel_self, i64 56), align 8
  %2 = shl nuw i32 1, %1
  ret i32 %2
}

define dso_local range(i64 0, 2) i64 @accel_helper_601(i64 %0, i64 %1, i64 %2, i64 %3, i64 %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i32 @lane_id() #24
  %7 = tail call fastcc i32 @active() #24
  %8 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %7, i1 true)
  %9 = icmp eq i32 %6, %8
  %10 = zext i1 %9 to i64
  ret i64 %10
}

declare i32 @llvm.cttz.i32(i32, i1 immarg) #13

define dso_local range(i64 0, 4294967296) i64 @accel_helper_602(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i32 @active() #24
  %7 = icmp ne i64 %0, 0
  %8 = zext i1 %7 to i32
  %9 = tail call fastcc i32 @ballot(i32 noundef %6, i32 noundef %8) #24
  %10 = zext i32 %9 to i64
  ret i64 %10
}

define internal fastcc noundef i32 @ballot(i32 noundef %0, i32 noundef %1) unnamed_addr #2 {
  %3 = icmp eq i32 %1, 0
  %4 = select i1 %3, i32 0, i32 %0
  ret i32 %4
}

define dso_local range(i64 0, 2) i64 @accel_helper_603(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i32 @active() #24
  %7 = icmp ne i64 %0, 0
  %8 = zext i1 %7 to i32
  %9 = tail call fastcc i32 @ballot(i32 noundef %6, i32 noundef %8) #24
  %10 = icmp ne i32 %9, 0
  %11 = zext i1 %10 to i64
  ret i64 %11
}

define dso_local range(i64 0, 2) i64 @accel_helper_604(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i32 @active() #24
  %7 = icmp eq i64 %0, 0
  %8 = zext i1 %7 to i32
  %9 = tail call fastcc i32 @ballot(i32 noundef %6, i32 noundef %8) #24
  %10 = icmp eq i32 %9, 0
  %11 = zext i1 %10 to i64
  ret i64 %11
}

define dso_local noundef i64 @accel_helper_605(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  ret i64 0
}

define dso_local i64 @accel_helper_606(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #5 {
  %6 = tail call fastcc i64 @cycles() #24
  ret i64 %6
}

define internal fastcc i64 @cycles() unnamed_addr #6 {
  %1 = load i64, ptr getelementptr inbounds (i8, ptr @accel_self, i64 64), align 8
  %2 = add i64 %1, 1
  store i64 %2, ptr getelementptr inbounds (i8, ptr @accel_self, i64 64), align 8
  ret i64 %2
}

define dso_local i64 @accel_helper_607(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i64 @thread_number() #24
  ret i64 %6
}

define internal fastcc i64 @thread_number() unnamed_addr #7 {
  %1 = tail call fastcc i32 @block(i32 noundef 2) #24
  %2 = zext i32 %1 to i64
  %3 = tail call fastcc i32 @dims(i32 noundef 2) #24
  %4 = zext i32 %3 to i64
  %5 = mul nuw i64 %4, %2
  %6 = tail call fastcc i32 @thread(i32 noundef 2) #24
  %7 = zext i32 %6 to i64
  %8 = add nuw i64 %5, %7
  %9 = tail call fastcc i32 @grid(i32 noundef 1) #24
  %10 = zext i32 %9 to i64
  %11 = tail call fastcc i32 @dims(i32 noundef 1) #24
  %12 = zext i32 %11 to i64
  %13 = mul i64 %8, %10
  %14 = tail call fastcc i32 @block(i32 noundef 1) #24
  %15 = zext i32 %14 to i64
  %16 = tail call fastcc i32 @thread(i32 noundef 1) #24
  %17 = zext i32 %16 to i64
  %18 = add i64 %13, %15
  %19 = mul i64 %18, %12
  %20 = add i64 %19, %17
  %21 = tail call fastcc i32 @grid(i32 noundef 0) #24
  %22 = zext i32 %21 to i64
  %23 = tail call fastcc i32 @dims(i32 noundef 0) #24
  %24 = zext i32 %23 to i64
  %25 = mul i64 %20, %22
  %26 = tail call fastcc i32 @block(i32 noundef 0) #24
  %27 = zext i32 %26 to i64
  %28 = tail call fastcc i32 @thread(i32 noundef 0) #24
  %29 = zext i32 %28 to i64
  %30 = add i64 %25, %27
  %31 = mul i64 %30, %24
  %32 = add i64 %31, %29
  ret i64 %32
}

define dso_local i64 @accel_helper_608(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i64 @block_number() #24
  ret i64 %6
}

define internal fastcc i64 @block_number() unnamed_addr #7 {
  %1 = tail call fastcc i32 @block(i32 noundef 2) #24
  %2 = zext i32 %1 to i64
  %3 = tail call fastcc i32 @grid(i32 noundef 1) #24
  %4 = zext i32 %3 to i64
  %5 = mul nuw i64 %4, %2
  %6 = tail call fastcc i32 @block(i32 noundef 1) #24
  %7 = zext i32 %6 to i64
  %8 = add nuw i64 %5, %7
  %9 = tail call fastcc i32 @grid(i32 noundef 0) #24
  %10 = zext i32 %9 to i64
  %11 = mul i64 %8, %10
  %12 = tail call fastcc i32 @block(i32 noundef 0) #24
  %13 = zext i32 %12 to i64
  %14 = add i64 %11, %13
  ret i64 %14
}

define dso_local noundef i64 @accel_helper_609(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  ret i64 0
}

define dso_local range(i64 0, 2) i64 @accel_helper_610(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i32 @active() #24
  %7 = tail call fastcc i32 @distinct(i32 noundef %6) #24
  %8 = zext nneg i32 %7 to i64
  ret i64 %8
}

define internal fastcc range(i32 0, 2) i32 @distinct(i32 noundef %0) unnamed_addr #2 {
  %2 = icmp ne i32 %0, 0
  %3 = zext i1 %2 to i32
  ret i32 %3
}

define dso_local range(i64 0, 33) i64 @accel_helper_611(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = trunc i64 %1 to i32
  %7 = tail call fastcc i32 @bank_passes(i32 noundef %6) #24
  %8 = zext nneg i32 %7 to i64
  ret i64 %8
}

define internal fastcc range(i32 0, 33) i32 @bank_passes(i32 noundef %0) unnamed_addr #7 {
  %2 = tail call fastcc i32 @active() #24
  %3 = tail call fastcc i32 @distinct_words(i32 noundef %2) #24
  ret i32 %3
}

define dso_local range(i64 0, 2) i64 @accel_helper_612(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i32 @lane_id() #24
  %7 = tail call fastcc i32 @active() #24
  %8 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %7, i1 true)
  %9 = icmp eq i32 %6, %8
  %10 = zext i1 %9 to i64
  ret i64 %10
}

define dso_local range(i64 0, 4294967296) i64 @accel_helper_613(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #7 {
  %6 = tail call fastcc i32 @stripe_id() #24
  %7 = zext i32 %6 to i64
  ret i64 %7
}

define internal fastcc i32 @stripe_id() unnamed_addr #8 {
  %1 = load i32, ptr getelementptr inbounds (i8, ptr @accel_self, i64 48), align 8
  ret i32 %1
}

define dso_local noundef i64 @accel_helper_614(i64 noundef %0, i64 noundef %1, i64 noundef %2, i64 noundef %3, i64 noundef %4) local_unnamed_addr #2 {
  ret i64 32
}

define dso_local i64 @accel_launch() local_unnamed_addr #7 {
  %1 = tail call fastcc i64 @launch_id() #24
  ret i64 %1
}

define internal fastcc i64 @launch_id() unnamed_addr #8 {
  %1 = load i64, ptr getelementptr inbounds (i8, ptr @accel_self, i64 72), align 8
  ret i64 %1
}

define dso_local range(i32 0, 2) i32 @accel_is_leader() local_unnamed_addr #7 {
  %1 = tail call i64 @accel_helper_601(i64 poison, i64 poison, i64 poison, i64 poison, i64 poison) #24
  %2 = trunc nuw nsw i64 %1 to i32
  ret i32 %2
}

define internal fastcc void @search(ptr dead_on_unwind noalias nocapture writable writeonly sret(%struct.search) align 8 %0, ptr nocapture noundef readonly %1, ptr noundef readonly %2, i32 noundef %3, i64 noundef %4) unnamed_addr #0 {
  %6 = getelementptr inbounds i8, ptr %0, i64 16
  store i64 -1, ptr %6, align 8
  %7 = getelementptr inbounds i8, ptr %0, i64 8
  store i64 -1, ptr %7, align 8
  store i64 -1, ptr %0, align 8
  %8 = tail call fastcc i64 @slots(ptr noundef %1) #24
  %9 = zext i32 %3 to i64
  %10 = add nuw i64 %8, 9223372036854775807
  br label %11

11:                                               ; preds = %5, %45
  %12 = phi i64 [ 0, %5 ], [ %46, %45 ]
  %13 = phi i64 [ -1, %5 ], [ %43, %45 ]
  %14 = phi i64 [ -1, %5 ], [ %42, %45 ]
  %15 = phi i64 [ -1, %5 ], [ %41, %45 ]
  %16 = add nuw nsw i64 %12, %9
  %17 = and i64 %10, %16
  %18 = icmp eq i64 %17, %4
  br i1 %18, label %40, label %19

19:                                               ; preds = %11
  %20 = tail call fastcc ptr @slot_state(ptr noundef %1, i64 noundef %17) #24
  %21 = tail call fastcc i32 @get32(ptr noundef nonnull %20) #24
  switch i32 %21, label %26 [
    i32 3, label %22
    i32 0, label %22
  ]

22:                                               ; preds = %19, %19
  %23 = icmp eq i32 %21, 0
  %24 = icmp eq i64 %13, -1
  %25 = select i1 %24, i64 %17, i64 %13
  br i1 %23, label %40, label %37

26:                                               ; preds = %19
  %27 = xor i32 %21, %3
  %28 = icmp ult i32 %27, 4
  br i1 %28, label %29, label %40

29:                                               ; preds = %26
  %30 = and i32 %21, 3
  %31 = icmp eq i32 %30, 1
  br i1 %31, label %32, label %34

32:                                               ; preds = %29
  %33 = tail call i64 @llvm.umin.i64(i64 %17, i64 %15)
  br label %37

34:                                               ; preds = %29
  %35 = tail call fastcc i32 @same_key(ptr noundef %1, i64 noundef %17, ptr noundef %2) #24
  %36 = icmp eq i32 %35, 0
  br i1 %36, label %37, label %40

37:                                               ; preds = %32, %34, %22
  %38 = phi i64 [ %15, %34 ], [ %15, %22 ], [ %33, %32 ]
  %39 = phi i64 [ %13, %34 ], [ %25, %22 ], [ %13, %32 ]
  br label %40

40:                                               ; preds = %34, %37, %22, %26, %11
  %41 = phi i64 [ %15, %11 ], [ %38, %37 ], [ %15, %22 ], [ %15, %26 ], [ %15, %34 ]
  %42 = phi i64 [ %14, %11 ], [ %14, %37 ], [ %14, %22 ], [ %14, %26 ], [ %17, %34 ]
  %43 = phi i64 [ %13, %11 ], [ %39, %37 ], [ %25, %22 ], [ %13, %26 ], [ %13, %34 ]
  %44 = phi i32 [ 4, %11 ], [ 0, %37 ], [ 2, %22 ], [ 4, %26 ], [ 2, %34 ]
  switch i32 %44, label %48 [
    i32 0, label %45
    i32 4, label %45
  ]

45:                                               ; preds = %40, %40
  %46 = add nuw nsw i64 %12, 1
  %47 = icmp eq i64 %46, %8
  br i1 %47, label %48, label %11

48:                                               ; preds = %45, %40
  store i64 %43, ptr %7, align 8
  store i64 %42, ptr %0, align 8
  store i64 %41, ptr %6, align 8
  ret void
}

define internal fastcc i32 @hash_of(ptr nocapture noundef readonly %0, ptr noundef %1) unnamed_addr #14 {
  %3 = getelementptr inbounds i8, ptr %0, i64 4
  %4 = load i32, ptr %3, align 4
  %5 = tail call fastcc i32 @key_words(ptr noundef %0) #24
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
  %15 = tail call fastcc i32 @word(ptr noundef %1, i32 noundef %4, i32 noundef %13) #24
  %16 = xor i32 %15, %14
  %17 = mul i32 %16, -1640531535
  %18 = lshr i32 %17, 15
  %19 = xor i32 %18, %17
  %20 = add nuw nsw i32 %13, 1
  %21 = icmp eq i32 %20, %5
  br i1 %21, label %7, label %12
}

define internal fastcc nonnull ptr @slot_value(ptr nocapture noundef readonly %0, i64 noundef %1) unnamed_addr #15 {
  %3 = tail call fastcc ptr @slot_at(ptr noundef %0, i64 noundef %1) #24
  %4 = getelementptr inbounds i8, ptr %3, i64 8
  %5 = getelementptr inbounds i8, ptr %0, i64 4
  %6 = load i32, ptr %5, align 4
  %7 = zext i32 %6 to i64
  %8 = tail call fastcc i64 @round8(i64 noundef %7) #24
  %9 = getelementptr inbounds i8, ptr %4, i64 %8
  ret ptr %9
}

define internal fastcc range(i64 2, 8589934593) i64 @slots(ptr nocapture noundef readonly %0) unnamed_addr #15 {
  %2 = getelementptr inbounds i8, ptr %0, i64 12
  %3 = load i32, ptr %2, align 4
  %4 = tail call fastcc i64 @power_of_two(i32 noundef %3) #24
  %5 = shl nuw nsw i64 %4, 1
  ret i64 %5
}

define internal fastcc i32 @get32(ptr nocapture noundef readonly %0) unnamed_addr #16 {
  %2 = load atomic i32, ptr %0 acquire, align 4
  ret i32 %2
}

define internal fastcc nonnull ptr @slot_state(ptr nocapture noundef readonly %0, i64 noundef %1) unnamed_addr #15 {
  %3 = tail call fastcc ptr @slot_at(ptr noundef %0, i64 noundef %1) #24
  ret ptr %3
}

define internal fastcc range(i32 0, 2) i32 @same_key(ptr nocapture noundef readonly %0, i64 noundef %1, ptr noundef %2) unnamed_addr #17 {
  %4 = tail call fastcc ptr @slot_key(ptr noundef %0, i64 noundef %1) #24
  %5 = tail call fastcc i32 @key_words(ptr noundef %0) #24
  %6 = icmp eq i32 %5, 0
  br i1 %6, label %14, label %7

7:                                                ; preds = %3
  %8 = getelementptr inbounds i8, ptr %0, i64 4
  %9 = load i32, ptr %8, align 4
  %10 = zext nneg i32 %5 to i64
  br label %16

11:                                               ; preds = %16
  %12 = icmp eq i32 %24, 0
  %13 = zext i1 %12 to i32
  br label %14

14:                                               ; preds = %11, %3
  %15 = phi i32 [ 1, %3 ], [ %13, %11 ]
  ret i32 %15

16:                                               ; preds = %7, %16
  %17 = phi i64 [ 0, %7 ], [ %25, %16 ]
  %18 = phi i32 [ 0, %7 ], [ %24, %16 ]
  %19 = getelementptr inbounds i32, ptr %4, i64 %17
  %20 = load i32, ptr %19, align 4
  %21 = trunc nuw nsw i64 %17 to i32
  %22 = tail call fastcc i32 @word(ptr noundef %2, i32 noundef %9, i32 noundef %21) #24
  %23 = xor i32 %22, %20
  %24 = or i32 %23, %18
  %25 = add nuw nsw i64 %17, 1
  %26 = icmp eq i64 %25, %10
  br i1 %26, label %11, label %16
}

define internal fastcc range(i64 1, 4294967297) i64 @power_of_two(i32 noundef %0) unnamed_addr #2 {
  %2 = icmp ult i32 %0, 2
  %3 = add i32 %0, -1
  %4 = tail call range(i32 0, 33) i32 @llvm.ctlz.i32(i32 %3, i1 true)
  %5 = sub nuw nsw i32 32, %4
  %6 = zext nneg i32 %5 to i64
  %7 = shl nuw nsw i64 1, %6
  %8 = select i1 %2, i64 1, i64 %7
  ret i64 %8
}

declare i32 @llvm.ctlz.i32(i32, i1 immarg) #13

define internal fastcc nonnull ptr @slot_at(ptr nocapture noundef readonly %0, i64 noundef %1) unnamed_addr #15 {
  %3 = getelementptr inbounds i8, ptr %0, i64 4
  %4 = load i32, ptr %3, align 4
  %5 = zext i32 %4 to i64
  %6 = tail call fastcc i64 @round8(i64 noundef %5) #24
  %7 = add i64 %6, 8
  %8 = getelementptr inbounds i8, ptr %0, i64 8
  %9 = load i32, ptr %8, align 8
  %10 = zext i32 %9 to i64
  %11 = tail call fastcc i64 @round8(i64 noundef %10) #24
  %12 = add i64 %7, %11
  %13 = getelementptr inbounds i8, ptr %0, i64 16
  %14 = load i64, ptr %13, align 8
  %15 = inttoptr i64 %14 to ptr
  %16 = getelementptr inbounds i8, ptr %15, i64 64
  %17 = mul i64 %12, %1
  %18 = getelementptr inbounds i8, ptr %16, i64 %17
  ret ptr %18
}

define internal fastcc noundef range(i64 0, -7) i64 @round8(i64 noundef %0) unnamed_addr #2 {
  %2 = add i64 %0, 7
  %3 = and i64 %2, -8
  ret i64 %3
}

define internal fastcc nonnull ptr @slot_key(ptr nocapture noundef readonly %0, i64 noundef %1) unnamed_addr #15 {
  %3 = tail call fastcc ptr @slot_at(ptr noundef %0, i64 noundef %1) #24
  %4 = getelementptr inbounds i8, ptr %3, i64 8
  ret ptr %4
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
  %11 = zext i32 %4 to i64
  br i1 %10, label %15, label %12

12:                                               ; preds = %3
  %13 = zext i32 %1 to i64
  %14 = icmp ult i32 %4, %1
  br i1 %14, label %18, label %22

15:                                               ; preds = %3
  %16 = getelementptr inbounds i8, ptr %0, i64 %11
  %17 = load i32, ptr %16, align 4
  br label %52

18:                                               ; preds = %12
  %19 = getelementptr inbounds i8, ptr %0, i64 %11
  %20 = load i8, ptr %19, align 1
  %21 = zext i8 %20 to i32
  br label %22

22:                                               ; preds = %12, %18
  %23 = phi i32 [ %21, %18 ], [ 0, %12 ]
  %24 = or disjoint i64 %11, 1
  %25 = icmp ult i64 %24, %13
  br i1 %25, label %26, label %32

26:                                               ; preds = %22
  %27 = getelementptr inbounds i8, ptr %0, i64 %24
  %28 = load i8, ptr %27, align 1
  %29 = zext i8 %28 to i32
  %30 = shl nuw nsw i32 %29, 8
  %31 = or disjoint i32 %30, %23
  br label %32

32:                                               ; preds = %26, %22
  %33 = phi i32 [ %31, %26 ], [ %23, %22 ]
  %34 = or disjoint i64 %11, 2
  %35 = icmp ult i64 %34, %13
  br i1 %35, label %36, label %42

36:                                               ; preds = %32
  %37 = getelementptr inbounds i8, ptr %0, i64 %34
  %38 = load i8, ptr %37, align 1
  %39 = zext i8 %38 to i32
  %40 = shl nuw nsw i32 %39, 16
  %41 = or i32 %40, %33
  br label %42

42:                                               ; preds = %36, %32
  %43 = phi i32 [ %41, %36 ], [ %33, %32 ]
  %44 = or disjoint i64 %11, 3
  %45 = icmp ult i64 %44, %13
  br i1 %45, label %46, label %52

46:                                               ; preds = %42
  %47 = getelementptr inbounds i8, ptr %0, i64 %44
  %48 = load i8, ptr %47, align 1
  %49 = zext i8 %48 to i32
  %50 = shl nuw i32 %49, 24
  %51 = or i32 %50, %43
  br label %52

52:                                               ; preds = %42, %46, %15
  %53 = phi i32 [ %17, %15 ], [ %51, %46 ], [ %43, %42 ]
  ret i32 %53
}

define internal fastcc range(i64 0, 2) i64 @no_room_for_thread(i32 noundef %0) unnamed_addr #7 {
  %2 = icmp eq i32 %0, 3
  br i1 %2, label %3, label %8

3:                                                ; preds = %1
  %4 = tail call fastcc i64 @thread_number() #24
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
  %4 = inttoptr i64 %3 to ptr
  %5 = getelementptr inbounds i64, ptr %4, i64 %0
  %6 = tail call fastcc i64 @add64(ptr noundef %5, i64 noundef 1) #24
  %7 = tail call fastcc i64 @failed(i32 noundef %1) #24
  ret i64 %7
}

define internal fastcc i64 @array_value(ptr nocapture noundef readonly %0, i64 noundef %1, i32 noundef %2) unnamed_addr #7 {
  %4 = icmp eq i32 %2, 3
  br i1 %4, label %5, label %10

5:                                                ; preds = %3
  %6 = load i64, ptr @accel_threads, align 8
  %7 = mul i64 %6, %1
  %8 = tail call fastcc i64 @thread_number() #24
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

define internal fastcc i64 @add64(ptr nocapture noundef %0, i64 noundef %1) unnamed_addr #16 {
  %3 = atomicrmw add ptr %0, i64 %1 monotonic, align 8
  ret i64 %3
}

define internal fastcc range(i64 -28, 2) i64 @hash_attempt(i64 noundef %0, i32 noundef %1, ptr noundef %2, ptr noundef %3, i64 noundef %4, ptr nocapture noundef %5) unnamed_addr #4 {
  %7 = alloca %struct.search, align 8
  %8 = alloca i32, align 4
  %9 = alloca %struct.search, align 8
  %10 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %11 = getelementptr inbounds i8, ptr %10, i64 16
  %12 = load i64, ptr %11, align 8
  %13 = inttoptr i64 %12 to ptr
  %14 = tail call fastcc i64 @fresh64(ptr noundef %13) #24
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
  br i1 %16, label %24, label %55

24:                                               ; preds = %22
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %7) #25
  call fastcc void @search(ptr dead_on_unwind nonnull writable sret(%struct.search) align 8 %7, ptr noundef nonnull %10, ptr noundef %2, i32 noundef %1, i64 noundef -1) #24
  %25 = load i64, ptr %7, align 8
  %26 = icmp eq i64 %25, -1
  br i1 %26, label %29, label %27

27:                                               ; preds = %24
  %28 = tail call fastcc i64 @hash_overwrite(ptr noundef nonnull %10, i64 noundef %25, ptr noundef %3, i64 noundef %4) #24
  br label %52

29:                                               ; preds = %24
  %30 = getelementptr inbounds i8, ptr %7, i64 16
  %31 = load i64, ptr %30, align 8
  %32 = icmp eq i64 %31, -1
  br i1 %32, label %33, label %52

33:                                               ; preds = %29
  %34 = icmp eq i64 %4, 2
  br i1 %34, label %35, label %37

35:                                               ; preds = %33
  %36 = tail call fastcc i64 @failed(i32 noundef 2) #24
  br label %52

37:                                               ; preds = %33
  br i1 %23, label %52, label %38

38:                                               ; preds = %37
  %39 = getelementptr inbounds i8, ptr %7, i64 8
  %40 = load i64, ptr %39, align 8
  %41 = icmp eq i64 %40, -1
  br i1 %41, label %52, label %42

42:                                               ; preds = %38
  call void @llvm.lifetime.start.p0(i64 4, ptr nonnull %8) #25
  %43 = tail call fastcc ptr @slot_state(ptr noundef nonnull %10, i64 noundef %40) #24
  %44 = tail call fastcc i32 @get32(ptr noundef nonnull %43) #24
  store i32 %44, ptr %8, align 4
  switch i32 %44, label %51 [
    i32 3, label %45
    i32 0, label %45
  ]

45:                                               ; preds = %42, %42
  %46 = and i32 %1, -4
  %47 = or disjoint i32 %46, 1
  %48 = call fastcc i32 @swap32(ptr noundef nonnull %43, ptr noundef nonnull %8, i32 noundef %47) #24
  %49 = icmp eq i32 %48, 0
  br i1 %49, label %51, label %50

50:                                               ; preds = %45
  store i64 %40, ptr %5, align 8
  call void @llvm.lifetime.end.p0(i64 4, ptr nonnull %8) #25
  br label %52

51:                                               ; preds = %45, %42
  call void @llvm.lifetime.end.p0(i64 4, ptr nonnull %8) #25
  br label %52

52:                                               ; preds = %37, %50, %51, %38, %29, %35, %27
  %53 = phi i1 [ false, %27 ], [ false, %35 ], [ false, %51 ], [ false, %29 ], [ false, %38 ], [ true, %50 ], [ true, %37 ]
  %54 = phi i64 [ %28, %27 ], [ %36, %35 ], [ 1, %51 ], [ 1, %29 ], [ 1, %38 ], [ 1, %50 ], [ 1, %37 ]
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %7) #25
  br i1 %53, label %55, label %83

55:                                               ; preds = %52, %22
  tail call fastcc void @order() #24
  call void @llvm.lifetime.start.p0(i64 24, ptr nonnull %9) #25
  %56 = load i64, ptr %5, align 8
  call fastcc void @search(ptr dead_on_unwind nonnull writable sret(%struct.search) align 8 %9, ptr noundef nonnull %10, ptr noundef %2, i32 noundef %1, i64 noundef %56) #24
  %57 = load i64, ptr %9, align 8
  %58 = icmp eq i64 %57, -1
  br i1 %58, label %59, label %64

59:                                               ; preds = %55
  %60 = getelementptr inbounds i8, ptr %9, i64 16
  %61 = load i64, ptr %60, align 8
  %62 = load i64, ptr %5, align 8
  %63 = icmp ult i64 %61, %62
  br i1 %63, label %64, label %65

64:                                               ; preds = %59, %55
  tail call fastcc void @hash_release(ptr noundef nonnull %10, ptr noundef nonnull %5) #24
  br label %65

65:                                               ; preds = %64, %59
  %66 = icmp ne i64 %57, -1
  %67 = getelementptr inbounds i8, ptr %9, i64 16
  %68 = load i64, ptr %67, align 8
  %69 = icmp ne i64 %68, -1
  %70 = select i1 %66, i1 true, i1 %69
  br i1 %70, label %81, label %71

71:                                               ; preds = %65
  br i1 %23, label %75, label %72

72:                                               ; preds = %71
  %73 = load i64, ptr %5, align 8
  %74 = tail call fastcc i64 @hash_fill(i64 noundef %0, i64 noundef %73, i32 noundef %1, ptr noundef %2, ptr noundef %3) #24
  br label %81

75:                                               ; preds = %71
  %76 = tail call fastcc i64 @fresh64(ptr noundef %13) #24
  %77 = xor i64 %76, %14
  %78 = icmp ult i64 %77, 4294967296
  br i1 %78, label %79, label %81

79:                                               ; preds = %75
  %80 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 7) #24
  br label %81

81:                                               ; preds = %79, %75, %65, %72
  %82 = phi i64 [ %74, %72 ], [ 1, %65 ], [ %80, %79 ], [ 1, %75 ]
  call void @llvm.lifetime.end.p0(i64 24, ptr nonnull %9) #25
  br label %83

83:                                               ; preds = %52, %81
  %84 = phi i64 [ %82, %81 ], [ %54, %52 ]
  ret i64 %84
}

define internal fastcc void @hash_release(ptr nocapture noundef readonly %0, ptr nocapture noundef %1) unnamed_addr #3 {
  %3 = load i64, ptr %1, align 8
  %4 = icmp eq i64 %3, -1
  br i1 %4, label %7, label %5

5:                                                ; preds = %2
  %6 = tail call fastcc ptr @slot_state(ptr noundef %0, i64 noundef %3) #24
  tail call fastcc void @set32(ptr noundef nonnull %6, i32 noundef 3) #24
  br label %7

7:                                                ; preds = %5, %2
  store i64 -1, ptr %1, align 8
  ret void
}

define internal fastcc i64 @fresh64(ptr noundef %0) unnamed_addr #18 {
  %2 = load volatile i64, ptr %0, align 8
  ret i64 %2
}

define internal fastcc range(i64 -28, 1) i64 @hash_overwrite(ptr nocapture noundef readonly %0, i64 noundef %1, ptr noundef %2, i64 noundef %3) unnamed_addr #19 {
  %5 = icmp eq i64 %3, 1
  br i1 %5, label %6, label %8

6:                                                ; preds = %4
  %7 = tail call fastcc i64 @failed(i32 noundef 17) #24
  br label %13

8:                                                ; preds = %4
  %9 = tail call fastcc ptr @slot_value(ptr noundef %0, i64 noundef %1) #24
  %10 = getelementptr inbounds i8, ptr %0, i64 8
  %11 = load i32, ptr %10, align 8
  %12 = zext i32 %11 to i64
  tail call fastcc void @copy(ptr noundef nonnull %9, ptr noundef %2, i64 noundef %12) #24
  br label %13

13:                                               ; preds = %8, %6
  %14 = phi i64 [ %7, %6 ], [ 0, %8 ]
  ret i64 %14
}

define internal fastcc range(i32 0, 2) i32 @swap32(ptr nocapture noundef %0, ptr nocapture noundef %1, i32 noundef %2) unnamed_addr #16 {
  %4 = load i32, ptr %1, align 4
  %5 = cmpxchg ptr %0, i32 %4, i32 %2 acq_rel acquire, align 4
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

define internal fastcc void @order() unnamed_addr #9 {
  fence seq_cst
  ret void
}

define internal fastcc range(i64 -28, 1) i64 @hash_fill(i64 noundef %0, i64 noundef %1, i32 noundef %2, ptr noundef %3, ptr noundef %4) unnamed_addr #0 {
  %6 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %7 = getelementptr inbounds i8, ptr %6, i64 16
  %8 = load i64, ptr %7, align 8
  %9 = inttoptr i64 %8 to ptr
  %10 = tail call fastcc i64 @add64(ptr noundef %9, i64 noundef 1) #24
  %11 = trunc i64 %10 to i32
  %12 = getelementptr inbounds i8, ptr %6, i64 12
  %13 = load i32, ptr %12, align 4
  %14 = icmp ugt i32 %13, %11
  br i1 %14, label %15, label %21

15:                                               ; preds = %5
  %16 = tail call fastcc i32 @key_words(ptr noundef nonnull %6) #24
  %17 = icmp eq i32 %16, 0
  br i1 %17, label %25, label %18

18:                                               ; preds = %15
  %19 = getelementptr inbounds i8, ptr %6, i64 4
  %20 = load i32, ptr %19, align 4
  br label %33

21:                                               ; preds = %5
  %22 = tail call fastcc i64 @add64(ptr noundef %9, i64 noundef -1) #24
  %23 = tail call fastcc ptr @slot_state(ptr noundef nonnull %6, i64 noundef %1) #24
  tail call fastcc void @set32(ptr noundef nonnull %23, i32 noundef 3) #24
  %24 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 7) #24
  br label %43

25:                                               ; preds = %33, %15
  %26 = tail call fastcc ptr @slot_value(ptr noundef nonnull %6, i64 noundef %1) #24
  %27 = getelementptr inbounds i8, ptr %6, i64 8
  %28 = load i32, ptr %27, align 8
  %29 = zext i32 %28 to i64
  tail call fastcc void @copy(ptr noundef nonnull %26, ptr noundef %4, i64 noundef %29) #24
  %30 = tail call fastcc ptr @slot_state(ptr noundef nonnull %6, i64 noundef %1) #24
  %31 = and i32 %2, -4
  %32 = or disjoint i32 %31, 2
  tail call fastcc void @set32(ptr noundef nonnull %30, i32 noundef %32) #24
  br label %43

33:                                               ; preds = %18, %33
  %34 = phi i64 [ 0, %18 ], [ %39, %33 ]
  %35 = trunc nuw nsw i64 %34 to i32
  %36 = tail call fastcc i32 @word(ptr noundef %3, i32 noundef %20, i32 noundef %35) #24
  %37 = tail call fastcc ptr @slot_key(ptr noundef nonnull %6, i64 noundef %1) #24
  %38 = getelementptr inbounds i32, ptr %37, i64 %34
  store i32 %36, ptr %38, align 4
  %39 = add nuw nsw i64 %34, 1
  %40 = tail call fastcc i32 @key_words(ptr noundef nonnull %6) #24
  %41 = zext nneg i32 %40 to i64
  %42 = icmp ult i64 %39, %41
  br i1 %42, label %33, label %25

43:                                               ; preds = %25, %21
  %44 = phi i64 [ %24, %21 ], [ 0, %25 ]
  ret i64 %44
}

define internal fastcc void @copy(ptr noundef %0, ptr noundef %1, i64 noundef %2) unnamed_addr #20 {
  %4 = ptrtoint ptr %0 to i64
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
  %16 = getelementptr inbounds i8, ptr %0, i64 %13
  store i64 %15, ptr %16, align 8
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
  %29 = getelementptr inbounds i8, ptr %0, i64 %26
  store i32 %28, ptr %29, align 4
  %30 = add nuw i64 %26, 4
  %31 = icmp ult i64 %30, %2
  br i1 %31, label %25, label %39

32:                                               ; preds = %23, %32
  %33 = phi i64 [ %37, %32 ], [ 0, %23 ]
  %34 = getelementptr inbounds i8, ptr %1, i64 %33
  %35 = load i8, ptr %34, align 1
  %36 = getelementptr inbounds i8, ptr %0, i64 %33
  store i8 %35, ptr %36, align 1
  %37 = add nuw i64 %33, 1
  %38 = icmp eq i64 %37, %2
  br i1 %38, label %39, label %32

39:                                               ; preds = %32, %25, %12, %23, %24, %10
  ret void
}

define internal fastcc void @set32(ptr nocapture noundef writeonly %0, i32 noundef %1) unnamed_addr #16 {
  store atomic i32 %1, ptr %0 release, align 4
  ret void
}

define internal fastcc void @commit(ptr noundef %0, i64 noundef %1, i32 noundef %2) unnamed_addr #4 {
  tail call fastcc void @publish() #24
  %4 = trunc i64 %1 to i32
  %5 = add i32 %4, 16
  %6 = or i32 %5, %2
  tail call fastcc void @put32(ptr noundef %0, i32 noundef %6) #24
  ret void
}

define internal fastcc void @put32(ptr noundef %0, i32 noundef %1) unnamed_addr #21 {
  store volatile i32 %1, ptr %0, align 4
  ret void
}

define internal fastcc i64 @own_ring_output(i64 noundef %0, ptr noundef %1, i64 noundef %2) unnamed_addr #4 {
  %4 = alloca i64, align 8
  %5 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %6 = tail call fastcc i64 @thread_number() #24
  %7 = getelementptr inbounds i8, ptr %5, i64 8
  %8 = load i32, ptr %7, align 8
  %9 = zext i32 %8 to i64
  %10 = tail call fastcc i64 @round8(i64 noundef %9) #24
  %11 = add i64 %10, 8
  %12 = icmp ult i64 %9, %2
  br i1 %12, label %13, label %15

13:                                               ; preds = %3
  %14 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 7) #24
  br label %58

15:                                               ; preds = %3
  %16 = load i64, ptr @accel_threads, align 8
  %17 = icmp ult i64 %6, %16
  br i1 %17, label %20, label %18

18:                                               ; preds = %15
  %19 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 28) #24
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
  %30 = inttoptr i64 %29 to ptr
  call void @llvm.lifetime.start.p0(i64 8, ptr nonnull %4) #25
  %31 = getelementptr inbounds i8, ptr %30, i64 8
  %32 = tail call fastcc i64 @fresh64(ptr noundef nonnull %31) #24
  store i64 %32, ptr %4, align 8
  br label %33

33:                                               ; preds = %40, %20
  %34 = load i64, ptr %4, align 8
  %35 = tail call fastcc i64 @fresh64(ptr noundef %30) #24
  %36 = sub i64 %34, %35
  %37 = icmp slt i64 %36, %23
  br i1 %37, label %40, label %38

38:                                               ; preds = %33
  %39 = tail call fastcc i64 @lost(i64 noundef %0, i32 noundef 28) #24
  br label %56

40:                                               ; preds = %33
  %41 = add i64 %34, 1
  %42 = call fastcc i32 @swap64(ptr noundef nonnull %31, ptr noundef nonnull %4, i64 noundef %41) #24
  %43 = icmp eq i32 %42, 0
  br i1 %43, label %33, label %44

44:                                               ; preds = %40
  %45 = getelementptr inbounds i8, ptr %30, i64 24
  %46 = load i64, ptr %4, align 8
  %47 = urem i64 %46, %23
  %48 = mul i64 %47, %11
  %49 = getelementptr inbounds i8, ptr %45, i64 %48
  %50 = tail call fastcc i64 @launch_id() #24
  %51 = trunc i64 %50 to i32
  %52 = getelementptr inbounds i8, ptr %49, i64 4
  store i32 %51, ptr %52, align 4
  %53 = getelementptr inbounds i8, ptr %49, i64 8
  tail call fastcc void @copy(ptr noundef nonnull %53, ptr noundef %1, i64 noundef %2) #24
  tail call fastcc void @publish() #24
  %54 = trunc nuw i64 %2 to i32
  %55 = or i32 %54, -2147483648
  tail call fastcc void @put32(ptr noundef nonnull %49, i32 noundef %55) #24
  br label %56

56:                                               ; preds = %44, %38
  %57 = phi i64 [ %39, %38 ], [ 0, %44 ]
  call void @llvm.lifetime.end.p0(i64 8, ptr nonnull %4) #25
  br label %58

58:                                               ; preds = %56, %18, %13
  %59 = phi i64 [ %14, %13 ], [ %19, %18 ], [ %57, %56 ]
  ret i64 %59
}

define internal fastcc range(i64 -28, 1) i64 @ring_output(i64 noundef %0, ptr noundef %1, i64 noundef %2) unnamed_addr #4 {
  %4 = getelementptr inbounds [0 x %struct.accel_map], ptr @accel_maps, i64 0, i64 %0
  %5 = getelementptr inbounds i8, ptr %4, i64 16
  %6 = load i64, ptr %5, align 8
  %7 = getelementptr inbounds i8, ptr %4, i64 12
  %8 = load i32, ptr %7, align 4
  %9 = tail call fastcc ptr @reserve(i64 noundef %0, i64 noundef %6, i32 noundef %8, i64 noundef %2) #24
  %10 = icmp eq ptr %9, null
  br i1 %10, label %11, label %13

11:                                               ; preds = %3
  %12 = tail call fastcc i64 @failed(i32 noundef 11) #24
  br label %15

13:                                               ; preds = %3
  %14 = getelementptr inbounds i8, ptr %9, i64 24
  tail call fastcc void @copy(ptr noundef nonnull %14, ptr noundef %1, i64 noundef %2) #24
  tail call fastcc void @commit(ptr noundef nonnull %9, i64 noundef %2, i32 noundef 0) #24
  br label %15

15:                                               ; preds = %13, %11
  %16 = phi i64 [ 0, %13 ], [ %12, %11 ]
  ret i64 %16
}

define internal fastcc range(i32 0, 2) i32 @swap64(ptr nocapture noundef %0, ptr nocapture noundef %1, i64 noundef %2) unnamed_addr #16 {
  %4 = load i64, ptr %1, align 8
  %5 = cmpxchg ptr %0, i64 %4, i64 %2 monotonic monotonic, align 8
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
  %3 = tail call fastcc i64 @power_of_two(i32 noundef %2) #24
  ret i64 %3
}

define internal fastcc i64 @take(ptr noundef %0, i64 noundef %1, i64 noundef %2) unnamed_addr #22 {
  %4 = tail call fastcc i32 @active() #24
  %5 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %4, i1 true)
  %6 = tail call fastcc i32 @lane_id() #24
  %7 = tail call fastcc i32 @ballot(i32 noundef %4, i32 noundef 1) #24
  %8 = icmp ne i32 %7, %4
  %9 = icmp eq i32 %6, %5
  %10 = select i1 %8, i1 true, i1 %9
  br i1 %10, label %11, label %17

11:                                               ; preds = %3
  %12 = tail call range(i32 0, 33) i32 @llvm.ctpop.i32(i32 %4)
  %13 = select i1 %8, i32 1, i32 %12
  %14 = tail call fastcc { i64, i32 } @claim(ptr noundef %0, i64 noundef %1, i64 noundef %2, i32 noundef %13) #24
  %15 = extractvalue { i64, i32 } %14, 0
  %16 = extractvalue { i64, i32 } %14, 1
  br label %17

17:                                               ; preds = %3, %11
  %18 = phi i32 [ %16, %11 ], [ 0, %3 ]
  %19 = phi i64 [ %15, %11 ], [ 0, %3 ]
  br i1 %8, label %25, label %20

20:                                               ; preds = %17
  %21 = shl nsw i32 -1, %6
  %22 = xor i32 %21, -1
  %23 = and i32 %4, %22
  %24 = tail call range(i32 0, 32) i32 @llvm.ctpop.i32(i32 %23)
  br label %25

25:                                               ; preds = %20, %17
  %26 = phi i32 [ %24, %20 ], [ 0, %17 ]
  %27 = icmp ult i32 %26, %18
  %28 = zext nneg i32 %26 to i64
  %29 = mul i64 %28, %2
  %30 = add i64 %29, %19
  %31 = select i1 %27, i64 %30, i64 -1
  ret i64 %31
}

define internal fastcc { i64, i32 } @claim(ptr noundef %0, i64 noundef %1, i64 noundef %2, i32 noundef %3) unnamed_addr #18 {
  %5 = getelementptr inbounds i8, ptr %0, i64 16
  %6 = zext nneg i32 %3 to i64
  %7 = mul i64 %6, %2
  %8 = tail call fastcc i64 @add64(ptr noundef nonnull %5, i64 noundef %7) #24
  %9 = getelementptr inbounds i8, ptr %0, i64 8
  %10 = tail call fastcc i64 @fresh64(ptr noundef nonnull %9) #24
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
  %27 = tail call fastcc i64 @add64(ptr noundef nonnull %5, i64 noundef %26) #24
  br label %28

28:                                               ; preds = %22, %19
  %29 = icmp eq i32 %20, 0
  br i1 %29, label %34, label %30

30:                                               ; preds = %28
  %31 = zext i32 %20 to i64
  %32 = mul i64 %31, %2
  %33 = tail call fastcc i64 @add64(ptr noundef %0, i64 noundef %32) #24
  br label %34

34:                                               ; preds = %28, %30
  %35 = phi i64 [ %33, %30 ], [ 0, %28 ]
  %36 = insertvalue { i64, i32 } poison, i64 %35, 0
  %37 = insertvalue { i64, i32 } %36, i32 %20, 1
  ret { i64, i32 } %37
}

declare i32 @llvm.ctpop.i32(i32) #13

define internal fastcc range(i32 0, 33) i32 @distinct_words(i32 noundef %0) unnamed_addr #7 {
  %2 = tail call fastcc i32 @lane_id() #24
  %3 = tail call range(i32 0, 33) i32 @llvm.cttz.i32(i32 %0, i1 true)
  %4 = icmp eq i32 %2, %3
  %5 = zext i1 %4 to i32
  %6 = tail call fastcc i32 @ballot(i32 noundef %0, i32 noundef %5) #24
  %7 = tail call range(i32 0, 33) i32 @llvm.ctpop.i32(i32 %6)
  ret i32 %7
}

declare i64 @llvm.umin.i64(i64, i64) #23

declare i32 @llvm.umax.i32(i32, i32) #23

attributes #0 = { nofree alwaysinline norecurse nounwind memory(readwrite, inaccessiblemem: none) }
attributes #1 = { mustprogress nocallback nofree nosync nounwind willreturn memory(argmem: readwrite) }
attributes #2 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(none) }
attributes #3 = { mustprogress nofree alwaysinline norecurse nounwind willreturn memory(readwrite, inaccessiblemem: none) }
attributes #4 = { nofree alwaysinline norecurse nounwind }
attributes #5 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(readwrite, inaccessiblemem: none) }
attributes #6 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(readwrite, argmem: none, inaccessiblemem: none) }
attributes #7 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(read, inaccessiblemem: none) }
attributes #8 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(read, argmem: none, inaccessiblemem: none) }
attributes #9 = { mustprogress nofree alwaysinline norecurse nounwind willreturn }
attributes #10 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(write, argmem: readwrite, inaccessiblemem: none) }
attributes #11 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(write, inaccessiblemem: none) }
attributes #12 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(write, argmem: none, inaccessiblemem: none) }
attributes #13 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #14 = { nofree alwaysinline norecurse nosync nounwind memory(argmem: read) }
attributes #15 = { mustprogress nofree alwaysinline norecurse nosync nounwind willreturn memory(argmem: read) }
attributes #16 = { mustprogress nofree alwaysinline norecurse nounwind willreturn memory(argmem: readwrite) }
attributes #17 = { nofree alwaysinline norecurse nosync nounwind memory(read, inaccessiblemem: none) }
attributes #18 = { mustprogress nofree alwaysinline norecurse nounwind willreturn memory(argmem: readwrite, inaccessiblemem: readwrite) }
attributes #19 = { nofree alwaysinline norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) }
attributes #20 = { nofree alwaysinline norecurse nosync nounwind memory(argmem: readwrite) }
attributes #21 = { nofree alwaysinline norecurse nounwind memory(argmem: readwrite, inaccessiblemem: readwrite) }
attributes #22 = { mustprogress nofree alwaysinline norecurse nounwind willreturn memory(read, argmem: readwrite, inaccessiblemem: readwrite) }
attributes #23 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #24 = { nobuiltin }
attributes #25 = { nounwind }
