; LLVM IR of known.c: written by tools/build_policy_model, not by hand.

define dso_local i64 @known_lru(ptr nocapture noundef %0, ptr nocapture noundef readonly %1, i64 noundef %2, i64 noundef %3, ptr noundef writeonly %4) local_unnamed_addr #0 {
  %6 = icmp eq i64 %2, 0
  br i1 %6, label %237, label %7

7:                                                ; preds = %5
  %8 = getelementptr inbounds i8, ptr %0, i64 16
  %9 = getelementptr inbounds i8, ptr %0, i64 56
  %10 = getelementptr inbounds i8, ptr %0, i64 8
  %11 = getelementptr inbounds i8, ptr %0, i64 24
  %12 = getelementptr inbounds i8, ptr %0, i64 32
  %13 = getelementptr inbounds i8, ptr %0, i64 40
  %14 = getelementptr inbounds i8, ptr %0, i64 32
  %15 = getelementptr inbounds i8, ptr %0, i64 40
  %16 = getelementptr inbounds i8, ptr %0, i64 64
  %17 = getelementptr inbounds i8, ptr %0, i64 32
  %18 = getelementptr inbounds i8, ptr %0, i64 40
  %19 = getelementptr inbounds i8, ptr %0, i64 40
  %20 = getelementptr inbounds i8, ptr %0, i64 64
  %21 = getelementptr inbounds i8, ptr %0, i64 24
  %22 = getelementptr inbounds i8, ptr %0, i64 32
  %23 = getelementptr inbounds i8, ptr %0, i64 40
  %24 = getelementptr inbounds i8, ptr %0, i64 48
  %25 = icmp eq ptr %4, null
  br label %26

26:                                               ; preds = %7, %234
  %27 = phi i64 [ 0, %7 ], [ %225, %234 ]
  %28 = phi i64 [ 0, %7 ], [ %235, %234 ]
  %29 = getelementptr inbounds i64, ptr %1, i64 %28
  %30 = load i64, ptr %29, align 8
  %31 = lshr i64 %30, 9
  %32 = trunc i64 %31 to i32
  %33 = load ptr, ptr %8, align 8
  %34 = and i64 %31, 4294967295
  %35 = getelementptr inbounds i32, ptr %33, i64 %34
  %36 = load i32, ptr %35, align 4
  %37 = add i32 %36, -1
  %38 = load i64, ptr %9, align 8
  %39 = load i64, ptr %0, align 8
  %40 = icmp ne i64 %39, 0
  %41 = zext i32 %37 to i64
  %42 = add i64 %39, -1
  %43 = icmp eq i64 %42, %41
  %44 = select i1 %40, i1 %43, i1 false
  br i1 %44, label %212, label %45

45:                                               ; preds = %26
  %46 = load i64, ptr %10, align 8
  %47 = icmp eq i64 %39, %46
  br i1 %47, label %48, label %124

48:                                               ; preds = %45
  %49 = lshr i64 %46, 6
  %50 = icmp eq i64 %39, 0
  br i1 %50, label %75, label %51

51:                                               ; preds = %48, %70
  %52 = phi i64 [ %72, %70 ], [ 0, %48 ]
  %53 = phi i64 [ %71, %70 ], [ 0, %48 ]
  %54 = load ptr, ptr %11, align 8
  %55 = getelementptr inbounds i32, ptr %54, i64 %52
  %56 = load i32, ptr %55, align 4
  %57 = load ptr, ptr %8, align 8
  %58 = zext i32 %56 to i64
  %59 = getelementptr inbounds i32, ptr %57, i64 %58
  %60 = load i32, ptr %59, align 4
  %61 = add i32 %60, -1
  %62 = zext i32 %61 to i64
  %63 = icmp eq i64 %52, %62
  br i1 %63, label %64, label %70

64:                                               ; preds = %51
  %65 = getelementptr inbounds i32, ptr %54, i64 %53
  store i32 %56, ptr %65, align 4
  %66 = add i64 %53, 1
  %67 = trunc i64 %66 to i32
  %68 = load ptr, ptr %8, align 8
  %69 = getelementptr inbounds i32, ptr %68, i64 %58
  store i32 %67, ptr %69, align 4
  br label %70

70:                                               ; preds = %64, %51
  %71 = phi i64 [ %66, %64 ], [ %53, %51 ]
  %72 = add nuw i64 %52, 1
  %73 = load i64, ptr %0, align 8
  %74 = icmp ult i64 %72, %73
  br i1 %74, label %51, label %75

75:                                               ; preds = %70, %48
  %76 = phi i64 [ 0, %48 ], [ %71, %70 ]
  store i64 %76, ptr %0, align 8
  %77 = icmp ult i64 %46, 64
  br i1 %77, label %119, label %79

78:                                               ; preds = %79
  br i1 %77, label %119, label %93

79:                                               ; preds = %75, %79
  %80 = phi i64 [ %90, %79 ], [ 0, %75 ]
  %81 = shl nuw i64 %80, 6
  %82 = tail call i64 @llvm.usub.sat.i64(i64 %76, i64 %81)
  %83 = icmp ugt i64 %82, 63
  %84 = shl nsw i64 -1, %82
  %85 = xor i64 %84, -1
  %86 = select i1 %83, i64 -1, i64 %85
  %87 = load ptr, ptr %12, align 8
  %88 = getelementptr inbounds i64, ptr %87, i64 %80
  store i64 %86, ptr %88, align 8
  %89 = load ptr, ptr %13, align 8
  %90 = add nuw nsw i64 %80, 1
  %91 = getelementptr inbounds i32, ptr %89, i64 %90
  store i32 0, ptr %91, align 4
  %92 = icmp eq i64 %90, %49
  br i1 %92, label %78, label %79

93:                                               ; preds = %78, %116
  %94 = phi i64 [ %117, %116 ], [ 1, %78 ]
  %95 = sub nsw i64 0, %94
  %96 = and i64 %94, %95
  %97 = add nuw nsw i64 %96, %94
  %98 = load ptr, ptr %14, align 8
  %99 = getelementptr i64, ptr %98, i64 %94
  %100 = getelementptr i8, ptr %99, i64 -8
  %101 = load i64, ptr %100, align 8
  %102 = tail call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %101)
  %103 = trunc nuw nsw i64 %102 to i32
  %104 = load ptr, ptr %15, align 8
  %105 = getelementptr inbounds i32, ptr %104, i64 %94
  %106 = load i32, ptr %105, align 4
  %107 = add i32 %106, %103
  store i32 %107, ptr %105, align 4
  %108 = icmp ugt i64 %97, %49
  br i1 %108, label %116, label %109

109:                                              ; preds = %93
  %110 = load ptr, ptr %15, align 8
  %111 = getelementptr inbounds i32, ptr %110, i64 %94
  %112 = load i32, ptr %111, align 4
  %113 = getelementptr inbounds i32, ptr %110, i64 %97
  %114 = load i32, ptr %113, align 4
  %115 = add i32 %114, %112
  store i32 %115, ptr %113, align 4
  br label %116

116:                                              ; preds = %109, %93
  %117 = add nuw nsw i64 %94, 1
  %118 = icmp eq i64 %94, %49
  br i1 %118, label %119, label %93

119:                                              ; preds = %116, %75, %78
  %120 = load ptr, ptr %8, align 8
  %121 = getelementptr inbounds i32, ptr %120, i64 %34
  %122 = load i32, ptr %121, align 4
  %123 = add i32 %122, -1
  br label %124

124:                                              ; preds = %119, %45
  %125 = phi i32 [ %123, %119 ], [ %37, %45 ]
  %126 = icmp eq i32 %125, -1
  br i1 %126, label %127, label %130

127:                                              ; preds = %124
  %128 = load i64, ptr %20, align 8
  %129 = add i64 %128, 1
  store i64 %129, ptr %20, align 8
  br label %178

130:                                              ; preds = %124
  %131 = load i64, ptr %16, align 8
  %132 = load ptr, ptr %17, align 8
  %133 = lshr i32 %125, 6
  %134 = zext nneg i32 %133 to i64
  %135 = getelementptr inbounds i64, ptr %132, i64 %134
  %136 = load i64, ptr %135, align 8
  %137 = and i32 %125, 63
  %138 = xor i32 %137, 63
  %139 = zext nneg i32 %138 to i64
  %140 = shl i64 %136, %139
  %141 = tail call range(i64 0, 65) i64 @llvm.ctpop.i64(i64 %140)
  %142 = trunc nuw nsw i64 %141 to i32
  %143 = icmp ult i32 %125, 64
  br i1 %143, label %155, label %144

144:                                              ; preds = %130
  %145 = load ptr, ptr %18, align 8
  br label %146

146:                                              ; preds = %146, %144
  %147 = phi i64 [ %134, %144 ], [ %153, %146 ]
  %148 = phi i32 [ %142, %144 ], [ %151, %146 ]
  %149 = getelementptr inbounds i32, ptr %145, i64 %147
  %150 = load i32, ptr %149, align 4
  %151 = add i32 %150, %148
  %152 = add nsw i64 %147, -1
  %153 = and i64 %152, %147
  %154 = icmp eq i64 %153, 0
  br i1 %154, label %155, label %146

155:                                              ; preds = %146, %130
  %156 = phi i32 [ %142, %130 ], [ %151, %146 ]
  %157 = zext i32 %156 to i64
  %158 = sub i64 %131, %157
  %159 = zext nneg i32 %137 to i64
  %160 = shl nuw i64 1, %159
  %161 = xor i64 %160, -1
  %162 = and i64 %136, %161
  store i64 %162, ptr %135, align 8
  %163 = load i64, ptr %10, align 8
  %164 = lshr i64 %163, 6
  %165 = icmp ugt i64 %164, %134
  br i1 %165, label %166, label %178

166:                                              ; preds = %155
  %167 = add nuw nsw i64 %134, 1
  br label %168

168:                                              ; preds = %168, %166
  %169 = phi i64 [ %167, %166 ], [ %176, %168 ]
  %170 = load ptr, ptr %19, align 8
  %171 = getelementptr inbounds i32, ptr %170, i64 %169
  %172 = load i32, ptr %171, align 4
  %173 = add i32 %172, -1
  store i32 %173, ptr %171, align 4
  %174 = sub nsw i64 0, %169
  %175 = and i64 %169, %174
  %176 = add nuw nsw i64 %175, %169
  %177 = icmp ugt i64 %176, %164
  br i1 %177, label %178, label %168

178:                                              ; preds = %168, %155, %127
  %179 = phi i64 [ %38, %127 ], [ %158, %155 ], [ %158, %168 ]
  %180 = load i64, ptr %0, align 8
  %181 = add i64 %180, 1
  store i64 %181, ptr %0, align 8
  %182 = trunc i64 %180 to i32
  %183 = load ptr, ptr %21, align 8
  %184 = and i64 %180, 4294967295
  %185 = getelementptr inbounds i32, ptr %183, i64 %184
  store i32 %32, ptr %185, align 4
  %186 = add i32 %182, 1
  %187 = load ptr, ptr %8, align 8
  %188 = getelementptr inbounds i32, ptr %187, i64 %34
  store i32 %186, ptr %188, align 4
  %189 = and i64 %180, 63
  %190 = shl nuw i64 1, %189
  %191 = load ptr, ptr %22, align 8
  %192 = lshr i64 %180, 6
  %193 = and i64 %192, 67108863
  %194 = getelementptr inbounds i64, ptr %191, i64 %193
  %195 = load i64, ptr %194, align 8
  %196 = or i64 %195, %190
  store i64 %196, ptr %194, align 8
  %197 = load i64, ptr %10, align 8
  %198 = lshr i64 %197, 6
  %199 = icmp ugt i64 %198, %193
  br i1 %199, label %200, label %212

200:                                              ; preds = %178
  %201 = add nuw nsw i64 %193, 1
  br label %202

202:                                              ; preds = %202, %200
  %203 = phi i64 [ %201, %200 ], [ %210, %202 ]
  %204 = load ptr, ptr %23, align 8
  %205 = getelementptr inbounds i32, ptr %204, i64 %203
  %206 = load i32, ptr %205, align 4
  %207 = add i32 %206, 1
  store i32 %207, ptr %205, align 4
  %208 = sub nsw i64 0, %203
  %209 = and i64 %203, %208
  %210 = add nuw nsw i64 %209, %203
  %211 = icmp ugt i64 %210, %198
  br i1 %211, label %212, label %202

212:                                              ; preds = %202, %178, %26
  %213 = phi i64 [ 0, %26 ], [ %179, %178 ], [ %179, %202 ]
  %214 = load ptr, ptr %24, align 8
  %215 = getelementptr inbounds i64, ptr %214, i64 %213
  %216 = load i64, ptr %215, align 8
  %217 = add i64 %216, 1
  store i64 %217, ptr %215, align 8
  %218 = icmp ult i64 %213, %3
  br i1 %218, label %219, label %222

219:                                              ; preds = %212
  %220 = load i64, ptr %9, align 8
  %221 = icmp eq i64 %213, %220
  br label %222

222:                                              ; preds = %219, %212
  %223 = phi i1 [ true, %212 ], [ %221, %219 ]
  %224 = zext i1 %223 to i64
  %225 = add i64 %27, %224
  br i1 %25, label %234, label %226

226:                                              ; preds = %222
  br i1 %218, label %227, label %230

227:                                              ; preds = %226
  %228 = load i64, ptr %9, align 8
  %229 = icmp eq i64 %213, %228
  br label %230

230:                                              ; preds = %227, %226
  %231 = phi i1 [ true, %226 ], [ %229, %227 ]
  %232 = zext i1 %231 to i8
  %233 = getelementptr inbounds i8, ptr %4, i64 %28
  store i8 %232, ptr %233, align 1
  br label %234

234:                                              ; preds = %230, %222
  %235 = add nuw i64 %28, 1
  %236 = icmp eq i64 %235, %2
  br i1 %236, label %237, label %26

237:                                              ; preds = %234, %5
  %238 = phi i64 [ 0, %5 ], [ %225, %234 ]
  ret i64 %238
}

define dso_local i64 @known_fifo(ptr nocapture noundef %0, ptr nocapture noundef readonly %1, i64 noundef %2, i64 noundef %3, ptr noundef writeonly %4) local_unnamed_addr #0 {
  %6 = icmp eq i64 %2, 0
  br i1 %6, label %56, label %7

7:                                                ; preds = %5
  %8 = getelementptr inbounds i8, ptr %0, i64 8
  %9 = getelementptr inbounds i8, ptr %0, i64 24
  %10 = getelementptr inbounds i8, ptr %0, i64 16
  %11 = getelementptr inbounds i8, ptr %0, i64 16
  %12 = icmp eq ptr %4, null
  br label %13

13:                                               ; preds = %7, %53
  %14 = phi i64 [ 0, %7 ], [ %50, %53 ]
  %15 = phi i64 [ 0, %7 ], [ %54, %53 ]
  %16 = getelementptr inbounds i64, ptr %1, i64 %15
  %17 = load i64, ptr %16, align 8
  %18 = lshr i64 %17, 9
  %19 = trunc i64 %18 to i32
  %20 = load ptr, ptr %8, align 8
  %21 = and i64 %18, 4294967295
  %22 = getelementptr inbounds i8, ptr %20, i64 %21
  %23 = load i8, ptr %22, align 1
  %24 = icmp eq i8 %23, 0
  %25 = zext i1 %24 to i8
  br i1 %24, label %26, label %49

26:                                               ; preds = %13
  %27 = load i64, ptr %9, align 8
  %28 = icmp eq i64 %27, %3
  br i1 %28, label %29, label %36

29:                                               ; preds = %26
  %30 = load ptr, ptr %0, align 8
  %31 = load i64, ptr %10, align 8
  %32 = getelementptr inbounds i32, ptr %30, i64 %31
  %33 = load i32, ptr %32, align 4
  %34 = zext i32 %33 to i64
  %35 = getelementptr inbounds i8, ptr %20, i64 %34
  store i8 0, ptr %35, align 1
  br label %38

36:                                               ; preds = %26
  %37 = add i64 %27, 1
  store i64 %37, ptr %9, align 8
  br label %38

38:                                               ; preds = %36, %29
  %39 = load ptr, ptr %0, align 8
  %40 = load i64, ptr %11, align 8
  %41 = getelementptr inbounds i32, ptr %39, i64 %40
  store i32 %19, ptr %41, align 4
  %42 = load i64, ptr %11, align 8
  %43 = add i64 %42, 1
  %44 = icmp eq i64 %43, %3
  %45 = select i1 %44, i64 0, i64 %43
  store i64 %45, ptr %11, align 8
  %46 = load ptr, ptr %8, align 8
  %47 = getelementptr inbounds i8, ptr %46, i64 %21
  store i8 1, ptr %47, align 1
  %48 = add i64 %14, 1
  br label %49

49:                                               ; preds = %38, %13
  %50 = phi i64 [ %48, %38 ], [ %14, %13 ]
  br i1 %12, label %53, label %51

51:                                               ; preds = %49
  %52 = getelementptr inbounds i8, ptr %4, i64 %15
  store i8 %25, ptr %52, align 1
  br label %53

53:                                               ; preds = %51, %49
  %54 = add nuw i64 %15, 1
  %55 = icmp eq i64 %54, %2
  br i1 %55, label %56, label %13

56:                                               ; preds = %53, %5
  %57 = phi i64 [ 0, %5 ], [ %50, %53 ]
  ret i64 %57
}

define dso_local i64 @known_mru(ptr nocapture noundef %0, ptr nocapture noundef readonly %1, i64 noundef %2, i64 noundef %3, ptr noundef writeonly %4) local_unnamed_addr #0 {
  %6 = icmp eq i64 %2, 0
  br i1 %6, label %43, label %7

7:                                                ; preds = %5
  %8 = getelementptr inbounds i8, ptr %0, i64 8
  %9 = getelementptr inbounds i8, ptr %0, i64 16
  %10 = getelementptr inbounds i8, ptr %0, i64 16
  %11 = icmp eq ptr %4, null
  br label %12

12:                                               ; preds = %7, %40
  %13 = phi i64 [ 0, %7 ], [ %37, %40 ]
  %14 = phi i64 [ 0, %7 ], [ %41, %40 ]
  %15 = getelementptr inbounds i64, ptr %1, i64 %14
  %16 = load i64, ptr %15, align 8
  %17 = lshr i64 %16, 9
  %18 = load ptr, ptr %0, align 8
  %19 = and i64 %17, 4294967295
  %20 = getelementptr inbounds i8, ptr %18, i64 %19
  %21 = load i8, ptr %20, align 1
  %22 = icmp eq i8 %21, 0
  %23 = zext i1 %22 to i8
  br i1 %22, label %24, label %36

24:                                               ; preds = %12
  %25 = load i64, ptr %8, align 8
  %26 = icmp eq i64 %25, %3
  br i1 %26, label %27, label %30

27:                                               ; preds = %24
  %28 = load i64, ptr %9, align 8
  %29 = getelementptr inbounds i8, ptr %18, i64 %28
  store i8 0, ptr %29, align 1
  br label %32

30:                                               ; preds = %24
  %31 = add i64 %25, 1
  store i64 %31, ptr %8, align 8
  br label %32

32:                                               ; preds = %30, %27
  %33 = load ptr, ptr %0, align 8
  %34 = getelementptr inbounds i8, ptr %33, i64 %19
  store i8 1, ptr %34, align 1
  %35 = add i64 %13, 1
  br label %36

36:                                               ; preds = %32, %12
  %37 = phi i64 [ %35, %32 ], [ %13, %12 ]
  store i64 %19, ptr %10, align 8
  br i1 %11, label %40, label %38

38:                                               ; preds = %36
  %39 = getelementptr inbounds i8, ptr %4, i64 %14
  store i8 %23, ptr %39, align 1
  br label %40

40:                                               ; preds = %38, %36
  %41 = add nuw i64 %14, 1
  %42 = icmp eq i64 %41, %2
  br i1 %42, label %43, label %12

43:                                               ; preds = %40, %5
  %44 = phi i64 [ 0, %5 ], [ %37, %40 ]
  ret i64 %44
}

define dso_local i64 @known_opt(ptr nocapture noundef %0, ptr nocapture noundef readonly %1, i64 noundef %2, i64 noundef %3, ptr noundef writeonly %4) local_unnamed_addr #0 {
  %6 = icmp eq i64 %2, 0
  br i1 %6, label %244, label %7

7:                                                ; preds = %5
  %8 = getelementptr inbounds i8, ptr %0, i64 16
  %9 = getelementptr inbounds i8, ptr %0, i64 8
  %10 = getelementptr inbounds i8, ptr %0, i64 24
  %11 = getelementptr inbounds i8, ptr %0, i64 40
  %12 = getelementptr inbounds i8, ptr %0, i64 40
  %13 = getelementptr inbounds i8, ptr %0, i64 32
  %14 = getelementptr inbounds i8, ptr %0, i64 24
  %15 = getelementptr inbounds i8, ptr %0, i64 40
  %16 = getelementptr inbounds i8, ptr %0, i64 32
  %17 = getelementptr inbounds i8, ptr %0, i64 40
  %18 = icmp eq ptr %4, null
  br label %19

19:                                               ; preds = %7, %241
  %20 = phi i64 [ 0, %7 ], [ %238, %241 ]
  %21 = phi i64 [ 0, %7 ], [ %242, %241 ]
  %22 = getelementptr inbounds i64, ptr %1, i64 %21
  %23 = load i64, ptr %22, align 8
  %24 = lshr i64 %23, 9
  %25 = trunc i64 %24 to i32
  %26 = load ptr, ptr %8, align 8
  %27 = and i64 %24, 4294967295
  %28 = getelementptr inbounds i32, ptr %26, i64 %27
  %29 = load i32, ptr %28, align 4
  %30 = add i32 %29, -1
  %31 = load i64, ptr %0, align 8
  %32 = icmp ne i64 %31, 0
  %33 = zext i32 %30 to i64
  %34 = add i64 %31, -1
  %35 = icmp eq i64 %34, %33
  %36 = select i1 %32, i1 %35, i1 false
  br i1 %36, label %235, label %37

37:                                               ; preds = %19
  %38 = load i64, ptr %9, align 8
  %39 = icmp eq i64 %31, %38
  br i1 %39, label %40, label %118

40:                                               ; preds = %37
  %41 = icmp eq i64 %31, 0
  br i1 %41, label %112, label %42

42:                                               ; preds = %40, %107
  %43 = phi i64 [ %109, %107 ], [ 0, %40 ]
  %44 = phi i64 [ %108, %107 ], [ 0, %40 ]
  %45 = load ptr, ptr %10, align 8
  %46 = getelementptr inbounds i32, ptr %45, i64 %43
  %47 = load i32, ptr %46, align 4
  %48 = load ptr, ptr %11, align 8
  %49 = lshr i64 %43, 6
  %50 = getelementptr inbounds i64, ptr %48, i64 %49
  %51 = load i64, ptr %50, align 8
  %52 = and i64 %43, 63
  %53 = load ptr, ptr %8, align 8
  %54 = zext i32 %47 to i64
  %55 = getelementptr inbounds i32, ptr %53, i64 %54
  %56 = load i32, ptr %55, align 4
  %57 = add i32 %56, -1
  %58 = zext i32 %57 to i64
  %59 = icmp eq i64 %43, %58
  %60 = shl nuw i64 1, %52
  %61 = and i64 %51, %60
  %62 = icmp ne i64 %61, 0
  %63 = select i1 %62, i1 true, i1 %59
  br i1 %63, label %64, label %107

64:                                               ; preds = %42
  br i1 %62, label %65, label %99

65:                                               ; preds = %64, %65
  %66 = phi i64 [ %81, %65 ], [ 0, %64 ]
  %67 = phi i64 [ %73, %65 ], [ %43, %64 ]
  %68 = and i64 %67, 63
  %69 = shl nuw i64 1, %68
  %70 = xor i64 %69, -1
  %71 = getelementptr inbounds [6 x ptr], ptr %11, i64 0, i64 %66
  %72 = load ptr, ptr %71, align 8
  %73 = lshr i64 %67, 6
  %74 = getelementptr inbounds i64, ptr %72, i64 %73
  %75 = load i64, ptr %74, align 8
  %76 = and i64 %75, %70
  store i64 %76, ptr %74, align 8
  %77 = load ptr, ptr %71, align 8
  %78 = getelementptr inbounds i64, ptr %77, i64 %73
  %79 = load i64, ptr %78, align 8
  %80 = icmp ne i64 %79, 0
  %81 = add nuw nsw i64 %66, 1
  %82 = icmp eq i64 %81, 6
  %83 = select i1 %80, i1 true, i1 %82
  br i1 %83, label %84, label %65

84:                                               ; preds = %65, %84
  %85 = phi i64 [ %96, %84 ], [ 0, %65 ]
  %86 = phi i64 [ %89, %84 ], [ %44, %65 ]
  %87 = getelementptr inbounds [6 x ptr], ptr %11, i64 0, i64 %85
  %88 = load ptr, ptr %87, align 8
  %89 = lshr i64 %86, 6
  %90 = getelementptr inbounds i64, ptr %88, i64 %89
  %91 = load i64, ptr %90, align 8
  %92 = and i64 %86, 63
  %93 = shl nuw i64 1, %92
  %94 = or i64 %91, %93
  store i64 %94, ptr %90, align 8
  %95 = icmp ne i64 %91, 0
  %96 = add nuw nsw i64 %85, 1
  %97 = icmp eq i64 %96, 6
  %98 = select i1 %95, i1 true, i1 %97
  br i1 %98, label %99, label %84

99:                                               ; preds = %84, %64
  %100 = load ptr, ptr %10, align 8
  %101 = add i64 %44, 1
  %102 = getelementptr inbounds i32, ptr %100, i64 %44
  store i32 %47, ptr %102, align 4
  br i1 %59, label %103, label %107

103:                                              ; preds = %99
  %104 = trunc i64 %101 to i32
  %105 = load ptr, ptr %8, align 8
  %106 = getelementptr inbounds i32, ptr %105, i64 %54
  store i32 %104, ptr %106, align 4
  br label %107

107:                                              ; preds = %103, %99, %42
  %108 = phi i64 [ %44, %42 ], [ %101, %103 ], [ %101, %99 ]
  %109 = add nuw i64 %43, 1
  %110 = load i64, ptr %0, align 8
  %111 = icmp ult i64 %109, %110
  br i1 %111, label %42, label %112

112:                                              ; preds = %107, %40
  %113 = phi i64 [ 0, %40 ], [ %108, %107 ]
  store i64 %113, ptr %0, align 8
  %114 = load ptr, ptr %8, align 8
  %115 = getelementptr inbounds i32, ptr %114, i64 %27
  %116 = load i32, ptr %115, align 4
  %117 = add i32 %116, -1
  br label %118

118:                                              ; preds = %112, %37
  %119 = phi i32 [ %117, %112 ], [ %30, %37 ]
  %120 = icmp eq i32 %119, -1
  br i1 %120, label %173, label %121

121:                                              ; preds = %118
  %122 = zext i32 %119 to i64
  br label %126

123:                                              ; preds = %168
  %124 = add i32 %170, 1
  %125 = icmp ult i32 %124, 6
  br i1 %125, label %126, label %173

126:                                              ; preds = %123, %121
  %127 = phi i32 [ undef, %121 ], [ %171, %123 ]
  %128 = phi i32 [ 0, %121 ], [ %124, %123 ]
  %129 = phi i64 [ %122, %121 ], [ %169, %123 ]
  %130 = zext nneg i32 %128 to i64
  %131 = getelementptr inbounds [6 x ptr], ptr %12, i64 0, i64 %130
  %132 = load ptr, ptr %131, align 8
  %133 = lshr i64 %129, 6
  %134 = getelementptr inbounds i64, ptr %132, i64 %133
  %135 = load i64, ptr %134, align 8
  %136 = and i64 %129, 63
  %137 = xor i64 %136, 63
  %138 = shl i64 %135, %137
  %139 = icmp eq i64 %138, 0
  br i1 %139, label %164, label %140

140:                                              ; preds = %126
  %141 = tail call range(i64 0, 65) i64 @llvm.ctlz.i64(i64 %138, i1 true)
  %142 = sub i64 %129, %141
  %143 = add nsw i32 %128, -1
  %144 = icmp eq i32 %128, 0
  br i1 %144, label %160, label %145

145:                                              ; preds = %140
  %146 = zext i32 %143 to i64
  br label %147

147:                                              ; preds = %147, %145
  %148 = phi i64 [ %146, %145 ], [ %158, %147 ]
  %149 = phi i64 [ %142, %145 ], [ %157, %147 ]
  %150 = shl i64 %149, 6
  %151 = or disjoint i64 %150, 63
  %152 = getelementptr inbounds [6 x ptr], ptr %12, i64 0, i64 %148
  %153 = load ptr, ptr %152, align 8
  %154 = getelementptr inbounds i64, ptr %153, i64 %149
  %155 = load i64, ptr %154, align 8
  %156 = tail call range(i64 0, 65) i64 @llvm.ctlz.i64(i64 %155, i1 true)
  %157 = sub nuw nsw i64 %151, %156
  %158 = add nsw i64 %148, -1
  %159 = icmp eq i64 %148, 0
  br i1 %159, label %160, label %147

160:                                              ; preds = %147, %140
  %161 = phi i64 [ %142, %140 ], [ %157, %147 ]
  %162 = phi i32 [ %143, %140 ], [ -1, %147 ]
  %163 = trunc i64 %161 to i32
  br label %168

164:                                              ; preds = %126
  %165 = icmp ult i64 %129, 64
  br i1 %165, label %168, label %166

166:                                              ; preds = %164
  %167 = add nsw i64 %133, -1
  br label %168

168:                                              ; preds = %166, %164, %160
  %169 = phi i64 [ %161, %160 ], [ %167, %166 ], [ %129, %164 ]
  %170 = phi i32 [ %162, %160 ], [ %128, %166 ], [ %128, %164 ]
  %171 = phi i32 [ %163, %160 ], [ %127, %166 ], [ -1, %164 ]
  %172 = phi i1 [ false, %160 ], [ true, %166 ], [ false, %164 ]
  br i1 %172, label %123, label %173

173:                                              ; preds = %168, %123, %118
  %174 = phi i32 [ -1, %118 ], [ %171, %168 ], [ -1, %123 ]
  br i1 %120, label %180, label %175

175:                                              ; preds = %173
  %176 = icmp eq i32 %174, -1
  br i1 %176, label %177, label %180

177:                                              ; preds = %175
  %178 = load i64, ptr %13, align 8
  %179 = icmp eq i64 %178, 0
  br label %180

180:                                              ; preds = %175, %177, %173
  %181 = phi i1 [ true, %173 ], [ false, %175 ], [ %179, %177 ]
  %182 = load i64, ptr %0, align 8
  %183 = add i64 %182, 1
  store i64 %183, ptr %0, align 8
  %184 = trunc i64 %182 to i32
  %185 = load ptr, ptr %14, align 8
  %186 = and i64 %182, 4294967295
  %187 = getelementptr inbounds i32, ptr %185, i64 %186
  store i32 %25, ptr %187, align 4
  %188 = add i32 %184, 1
  %189 = load ptr, ptr %8, align 8
  %190 = getelementptr inbounds i32, ptr %189, i64 %27
  store i32 %188, ptr %190, align 4
  br i1 %181, label %235, label %191

191:                                              ; preds = %180
  %192 = icmp eq i32 %174, -1
  br i1 %192, label %193, label %196

193:                                              ; preds = %191
  %194 = load i64, ptr %16, align 8
  %195 = add i64 %194, -1
  store i64 %195, ptr %16, align 8
  br label %217

196:                                              ; preds = %191
  %197 = zext i32 %174 to i64
  br label %198

198:                                              ; preds = %198, %196
  %199 = phi i64 [ 0, %196 ], [ %214, %198 ]
  %200 = phi i64 [ %197, %196 ], [ %206, %198 ]
  %201 = and i64 %200, 63
  %202 = shl nuw i64 1, %201
  %203 = xor i64 %202, -1
  %204 = getelementptr inbounds [6 x ptr], ptr %15, i64 0, i64 %199
  %205 = load ptr, ptr %204, align 8
  %206 = lshr i64 %200, 6
  %207 = getelementptr inbounds i64, ptr %205, i64 %206
  %208 = load i64, ptr %207, align 8
  %209 = and i64 %208, %203
  store i64 %209, ptr %207, align 8
  %210 = load ptr, ptr %204, align 8
  %211 = getelementptr inbounds i64, ptr %210, i64 %206
  %212 = load i64, ptr %211, align 8
  %213 = icmp ne i64 %212, 0
  %214 = add nuw nsw i64 %199, 1
  %215 = icmp eq i64 %214, 6
  %216 = select i1 %213, i1 true, i1 %215
  br i1 %216, label %217, label %198

217:                                              ; preds = %198, %193
  %218 = add i64 %182, 4294967295
  %219 = and i64 %218, 4294967295
  br label %220

220:                                              ; preds = %220, %217
  %221 = phi i64 [ 0, %217 ], [ %232, %220 ]
  %222 = phi i64 [ %219, %217 ], [ %225, %220 ]
  %223 = getelementptr inbounds [6 x ptr], ptr %17, i64 0, i64 %221
  %224 = load ptr, ptr %223, align 8
  %225 = lshr i64 %222, 6
  %226 = getelementptr inbounds i64, ptr %224, i64 %225
  %227 = load i64, ptr %226, align 8
  %228 = and i64 %222, 63
  %229 = shl nuw i64 1, %228
  %230 = or i64 %227, %229
  store i64 %230, ptr %226, align 8
  %231 = icmp ne i64 %227, 0
  %232 = add nuw nsw i64 %221, 1
  %233 = icmp eq i64 %232, 6
  %234 = select i1 %231, i1 true, i1 %233
  br i1 %234, label %235, label %220

235:                                              ; preds = %220, %19, %180
  %236 = phi i8 [ 1, %180 ], [ 0, %19 ], [ 0, %220 ]
  %237 = zext nneg i8 %236 to i64
  %238 = add i64 %20, %237
  br i1 %18, label %241, label %239

239:                                              ; preds = %235
  %240 = getelementptr inbounds i8, ptr %4, i64 %21
  store i8 %236, ptr %240, align 1
  br label %241

241:                                              ; preds = %239, %235
  %242 = add nuw i64 %21, 1
  %243 = icmp eq i64 %242, %2
  br i1 %243, label %244, label %19

244:                                              ; preds = %241, %5
  %245 = phi i64 [ 0, %5 ], [ %238, %241 ]
  ret i64 %245
}

declare i64 @llvm.ctpop.i64(i64) #1

declare i64 @llvm.ctlz.i64(i64, i1 immarg) #1

declare i64 @llvm.usub.sat.i64(i64, i64) #2

attributes #0 = { nofree norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) "no-builtins" }
attributes #1 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #2 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
