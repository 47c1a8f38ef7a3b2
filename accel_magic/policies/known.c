// Known algorithms of replacement, on blocks that are numbered from 0; block = page / 512.
//
// Compiled to LLVM IR by tools/build_policy_model. Each function reads the next part of a trace, keeps its state in the
// arrays that it is given (all zeros at first), sets `missed` for each access unless it is null, and returns the misses.
//
// Times are slots of a timeline: each block that was accessed owns the slot of its last access. If no slot is free, the
// slots that matter are moved together, in their order. So memory depends on the blocks, not on the trace.
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;

#define NONE 0xffffffffu
#define LEVELS 6 /* 64^6 slots */
#define BLOCK_SHIFT 9

struct timeline {
	u64 used;
	u64 slots; // a multiple of 64
	u32 *last; // slot + 1 of each block's last access; 0 before the first
	u32 *owner; // block of each slot
};

static u32 last_of(struct timeline *line, u32 block)
{
	return line->last[block] - 1;
}

static u32 append(struct timeline *line, u32 block)
{
	u32 slot = line->used++;

	line->owner[slot] = block;
	line->last[block] = slot + 1;
	return slot;
}

// LRU: an access hits if fewer other blocks than fit were accessed since its block's last access. This number, the
// stack distance, is the same for all sizes of memory. Blocks' last accesses are marked; a Fenwick tree counts the marks
// in words of 64 slots.
struct lru {
	struct timeline line;
	u64 *marks;
	u32 *tree; // over words, from 1
	u64 *histogram; // accesses by distance; at the end, first accesses
	u64 blocks;
	u64 live;
};

static void add(struct lru *lru, u64 word, u32 change)
{
	u64 words = lru->line.slots / 64, at;

	for (at = word + 1; at <= words; at += at & -at)
		lru->tree[at] += change;
}

static u32 marked_until(struct lru *lru, u32 slot)
{
	u32 sum = __builtin_popcountl(lru->marks[slot / 64] << (63 - slot % 64));
	u64 at;

	for (at = slot / 64; at; at &= at - 1)
		sum += lru->tree[at];
	return sum;
}

static void pack_lru(struct lru *lru)
{
	struct timeline *line = &lru->line;
	u64 words = line->slots / 64, at, next = 0;

	for (at = 0; at < line->used; at++) {
		u32 block = line->owner[at];

		if (last_of(line, block) == at) {
			line->owner[next] = block;
			line->last[block] = ++next;
		}
	}
	line->used = next;
	for (at = 0; at < words; at++) {
		u64 left = next > at * 64 ? next - at * 64 : 0;

		lru->marks[at] = left > 63 ? ~0ul : (1ul << left) - 1;
		lru->tree[at + 1] = 0;
	}
	for (at = 1; at <= words; at++) {
		u64 above = at + (at & -at);

		lru->tree[at] += __builtin_popcountl(lru->marks[at - 1]);
		if (above <= words)
			lru->tree[above] += lru->tree[at];
	}
}

u64 known_lru(struct lru *lru, const u64 *pages, u64 count, u64 chunks, u8 *missed)
{
	struct timeline *line = &lru->line;
	u64 misses = 0, at;

	for (at = 0; at < count; at++) {
		u32 block = pages[at] >> BLOCK_SHIFT, before = last_of(line, block), slot;
		u64 distance = lru->blocks;

		if (line->used && before == line->used - 1) {
			distance = 0;
		} else {
			if (line->used == line->slots) {
				pack_lru(lru);
				before = last_of(line, block);
			}
			if (before == NONE) {
				lru->live++;
			} else {
				distance = lru->live - marked_until(lru, before);
				lru->marks[before / 64] &= ~(1ul << before % 64);
				add(lru, before / 64, -1);
			}
			slot = append(line, block);
			lru->marks[slot / 64] |= 1ul << slot % 64;
			add(lru, slot / 64, 1);
		}
		lru->histogram[distance]++;
		misses += distance >= chunks || distance == lru->blocks;
		if (missed)
			missed[at] = distance >= chunks || distance == lru->blocks;
	}
	return misses;
}

struct fifo {
	u32 *queue; // as long as memory
	u8 *there;
	u64 oldest;
	u64 used;
};

u64 known_fifo(struct fifo *fifo, const u64 *pages, u64 count, u64 chunks, u8 *missed)
{
	u64 misses = 0, at;

	for (at = 0; at < count; at++) {
		u32 block = pages[at] >> BLOCK_SHIFT;
		u8 miss = !fifo->there[block];

		if (miss) {
			if (fifo->used == chunks)
				fifo->there[fifo->queue[fifo->oldest]] = 0;
			else
				fifo->used++;
			fifo->queue[fifo->oldest] = block;
			fifo->oldest = fifo->oldest + 1 == chunks ? 0 : fifo->oldest + 1;
			fifo->there[block] = 1;
			misses++;
		}
		if (missed)
			missed[at] = miss;
	}
	return misses;
}

struct mru {
	u8 *there;
	u64 used;
	u64 latest;
};

u64 known_mru(struct mru *mru, const u64 *pages, u64 count, u64 chunks, u8 *missed)
{
	u64 misses = 0, at;

	for (at = 0; at < count; at++) {
		u32 block = pages[at] >> BLOCK_SHIFT;
		u8 miss = !mru->there[block];

		if (miss) {
			if (mru->used == chunks)
				mru->there[mru->latest] = 0;
			else
				mru->used++;
			mru->there[block] = 1;
			misses++;
		}
		mru->latest = block;
		if (missed)
			missed[at] = miss;
	}
	return misses;
}

// OPT. An access hits if its block was kept since its last access. During each access between the two, memory holds that
// access's block and at most `chunks - 1` others: these are the keepers, each of which keeps one block at a time. If any
// keeper is free for all of these accesses, one is taken, and it is the one that kept a block last. That is optimal
// (interval scheduling by earliest end), for every beginning of the trace too, because it needs no knowledge of the rest.
// The slots of the last accesses during which keepers kept a block are bits; each level above has a bit for a word that is
// not empty.
struct opt {
	struct timeline line;
	u64 unused; // keepers that have not kept a block yet
	u64 *bits[LEVELS];
};

static void set(struct opt *opt, u64 at)
{
	u32 level;

	for (level = 0; level < LEVELS; level++, at /= 64) {
		u64 before = opt->bits[level][at / 64];

		opt->bits[level][at / 64] = before | 1ul << at % 64;
		if (before)
			return;
	}
}

static void clear(struct opt *opt, u64 at)
{
	u32 level;

	for (level = 0; level < LEVELS; level++, at /= 64) {
		opt->bits[level][at / 64] &= ~(1ul << at % 64);
		if (opt->bits[level][at / 64])
			return;
	}
}

// The last bit up to `at`; NONE without.
static u32 last_free(struct opt *opt, u64 at)
{
	u32 level;

	for (level = 0; level < LEVELS; level++) {
		u64 word = opt->bits[level][at / 64] << (63 - at % 64);

		if (word) {
			at -= __builtin_clzl(word);
			while (level--)
				at = at * 64 + 63 - __builtin_clzl(opt->bits[level][at]);
			return at;
		}
		if (at < 64)
			return NONE;
		at = at / 64 - 1;
	}
	return NONE;
}

static void pack_opt(struct opt *opt)
{
	struct timeline *line = &opt->line;
	u64 at, next = 0;

	for (at = 0; at < line->used; at++) {
		u32 block = line->owner[at];
		u64 here = opt->bits[0][at / 64] >> at % 64 & 1;
		u8 last = last_of(line, block) == at;

		if (!here && !last)
			continue;
		if (here) {
			clear(opt, at);
			set(opt, next);
		}
		line->owner[next++] = block;
		if (last)
			line->last[block] = next;
	}
	line->used = next;
}

u64 known_opt(struct opt *opt, const u64 *pages, u64 count, u64 chunks, u8 *missed)
{
	struct timeline *line = &opt->line;
	u64 misses = 0, at;

	for (at = 0; at < count; at++) {
		u32 block = pages[at] >> BLOCK_SHIFT, before = last_of(line, block), slot, keeper;
		u8 miss = 0;

		if (!line->used || before != line->used - 1) {
			if (line->used == line->slots) {
				pack_opt(opt);
				before = last_of(line, block);
			}
			keeper = before == NONE ? NONE : last_free(opt, before);
			miss = before == NONE || (keeper == NONE && !opt->unused);
			slot = append(line, block);
			if (!miss) {
				if (keeper == NONE)
					opt->unused--;
				else
					clear(opt, keeper);
				set(opt, slot - 1);
			}
		}
		misses += miss;
		if (missed)
			missed[at] = miss;
	}
	return misses;
}
