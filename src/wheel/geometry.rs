//! Selects the bucket of a deadline, and the buckets that a step of the clock makes due.
//!
//! This is pure arithmetic on the circle of `u64` nanoseconds. The time left is `deadline - clock`,
//! wrapped and read as a signed number. The number of a tick is `instant >> shift`, and wraps with
//! the instants.

use crate::clock::{Nanos, Timestamp, nanos};
use crate::links::{Links, NodeId};
use std::time::Duration;

/// Maximum number of buckets of one level: its occupancy must fit in one `u64`.
pub const MAX_BUCKETS: u32 = u64::BITS;

/// The buckets of the usual five levels, which are Caffeine's.
const BUCKETS: [u32; 5] = [64, 64, 32, 4, 1];

/// log2 of the default finest tick: 2^24 ns are 16.8 ms.
const DEFAULT_SHIFT: u32 = 24;

/// log2 of the finest tick that a resolution can select: 2^19 ns is the power of two below one
/// millisecond.
const FINEST_SHIFT: u32 = 19;

/// log2 of the coarsest one: with ticks of 2^30 ns (1.07 s) the levels are those of Caffeine.
const COARSEST_SHIFT: u32 = 30;

/// One level: a circle of buckets, each of which serves one tick of 2^shift ns at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// log2 of the tick in nanoseconds.
    pub shift: u32,
    /// The number of buckets, which is a power of two.
    pub buckets: u32,
}

impl Level {
    /// A level of `buckets` buckets with ticks of 2^`shift` ns. [`Geometry::new`] checks both.
    pub const fn new(shift: u32, buckets: u32) -> Self {
        Self { shift, buckets }
    }

    /// The length of one tick.
    pub fn span(self) -> Nanos {
        Nanos::from_raw(1 << self.shift)
    }

    /// The time that all buckets together cover.
    fn range(self) -> Nanos {
        Nanos::from_raw(u64::from(self.buckets) << self.shift)
    }

    /// The bucket of the tick that contains `instant`.
    #[inline]
    pub fn index(self, instant: Timestamp) -> u32 {
        (instant.raw() >> self.shift) as u32 & (self.buckets - 1)
    }

    /// The bucket `offset` ticks after that of `instant`.
    #[inline]
    pub fn index_after(self, instant: Timestamp, offset: u32) -> u32 {
        (self.index(instant) + offset) & (self.buckets - 1)
    }

    /// `occupied`, which has one bit per bucket, rotated so that bit 0 is the bucket of `instant`.
    #[inline]
    pub fn ahead(self, occupied: u64, instant: Timestamp) -> u64 {
        match self.index(instant) {
            0 => occupied,
            start => (occupied >> start | occupied << (self.buckets - start)) & self.all(),
        }
    }

    /// The buckets that are due once the clock has gone from `was` to `now`, as bits rotated like
    /// those of [`ahead`](Self::ahead) at `was`.
    ///
    /// The range starts with the tick that the clock left, because not all deadlines of that tick
    /// had passed. It ends with the tick that the clock is in now. Returns 0 if both are the same
    /// tick.
    #[inline]
    pub fn due(self, was: Timestamp, now: Timestamp) -> u64 {
        let tick_of = |instant: Timestamp| instant.raw() >> self.shift;
        let ticks = tick_of(now).wrapping_sub(tick_of(was)) & (u64::MAX >> self.shift);
        match ticks {
            0 => 0,
            ticks if ticks >= u64::from(self.buckets) => self.all(),
            ticks => self.all() & (u64::MAX >> (63 - ticks)),
        }
    }

    /// The time from `instant` until the bucket `offset` ticks ahead is due. The current bucket is
    /// next due when its tick has passed.
    #[inline]
    pub fn delay(self, instant: Timestamp, offset: u32) -> Nanos {
        let into_tick = instant.raw() & (self.span().raw() - 1);
        Nanos::from_raw((u64::from(offset.max(1)) << self.shift) - into_tick)
    }

    fn all(self) -> u64 {
        u64::MAX >> (MAX_BUCKETS - self.buckets)
    }
}

/// The ring of a bucket's first lane, which stands for the bucket, or of another lane; or the
/// backlog of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring(pub(super) u32);

impl Ring {
    pub fn of(level: usize, index: u32) -> Self {
        Self(level as u32 * MAX_BUCKETS + index)
    }

    pub(super) fn head(self) -> NodeId {
        NodeId::from_raw(NodeId::FIRST_RESERVED.raw() + self.0)
    }

    /// The ring that has this head.
    pub(super) fn of_head(head: NodeId) -> Self {
        Self(head.raw() - NodeId::FIRST_RESERVED.raw())
    }

    pub fn level(self) -> usize {
        (self.0 / MAX_BUCKETS) as usize
    }

    pub fn index(self) -> u32 {
        self.0 % MAX_BUCKETS
    }

    pub(super) fn bit(self) -> u64 {
        1 << self.index()
    }

    /// The head of this ring while it is empty.
    pub(super) fn empty_head(self) -> Links {
        let links = Links::default();
        links.set_prev(self.head());
        links.set_next(self.head());
        links
    }
}

/// The levels of a wheel, finest first. Each level covers one tick of the next level. The last
/// level has one bucket and takes all deadlines beyond the other levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    levels: Box<[Level]>,
    /// The level for a time left, indexed by the binary logarithm of the time left.
    by_magnitude: [u8; 64],
}

impl Default for Geometry {
    fn default() -> Self {
        Self::with_tick(DEFAULT_SHIFT)
    }
}

impl Geometry {
    /// Creates a geometry of these levels.
    ///
    /// # Panics
    ///
    /// Panics in each of these cases:
    ///
    /// * `levels` is empty.
    /// * A number of buckets is not a power of two up to [`MAX_BUCKETS`].
    /// * A level does not cover exactly one tick of the next level.
    /// * The last level has more than one bucket, or a tick of more than 2^61 ns.
    pub fn new(levels: &[Level]) -> Self {
        for level in levels {
            assert!(
                level.buckets.is_power_of_two() && level.buckets <= MAX_BUCKETS,
                "{} is not a valid number of buckets",
                level.buckets
            );
        }
        for pair in levels.windows(2) {
            assert_eq!(
                pair[0].shift + pair[0].buckets.trailing_zeros(),
                pair[1].shift,
                "a level must cover exactly one tick of the next level"
            );
        }
        let last = levels.last().expect("a wheel must have a level");
        assert!(last.buckets == 1 && last.shift <= 61, "last level: one bucket, tick <= 2^61 ns");
        // Each level's range is a power of two, so the logarithm of the time left decides the
        // level.
        let level_for = |left: Nanos| {
            levels[..levels.len() - 1].iter().take_while(|l| left >= l.range()).count()
        };
        let by_magnitude =
            std::array::from_fn(|magnitude| level_for(Nanos::from_raw(1 << magnitude)) as u8);
        Self { levels: levels.into(), by_magnitude }
    }

    /// The geometry for a resolution.
    ///
    /// The finest tick is the largest power of two of nanoseconds that is not above `resolution`,
    /// but at least 2^19 ns (0.52 ms) and at most 2^30 ns (1.07 s).
    pub fn with_resolution(resolution: Duration) -> Self {
        let nanos = nanos(resolution).raw();
        let shift = nanos.checked_ilog2().unwrap_or(0);
        Self::with_tick(shift.clamp(FINEST_SHIFT, COARSEST_SHIFT))
    }

    /// Five levels, of which the first has ticks of 2^`shift` ns. If these are finer than those of
    /// the default, then the default levels, preceded by one that covers a tick of theirs: so the
    /// tick of the last level is 2.44 h or longer, and what lives for days is seldom looked at.
    fn with_tick(shift: u32) -> Self {
        let mut levels = Vec::new();
        if shift < DEFAULT_SHIFT {
            levels.push(Level::new(shift, 1 << (DEFAULT_SHIFT - shift)));
        }
        let mut shift = shift.max(DEFAULT_SHIFT);
        for buckets in BUCKETS {
            levels.push(Level::new(shift, buckets));
            shift += buckets.trailing_zeros();
        }
        Self::new(&levels)
    }

    /// The finest tick. It limits the lateness of an entry, if the wheel is advanced whenever it
    /// asks for it.
    pub fn tick(&self) -> Duration {
        self.levels[0].span().to_duration()
    }

    /// The levels, finest first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The bucket for a deadline. A deadline that has passed goes to the current
    /// bucket of the finest level. The bucket that it missed comes round only a whole turn later.
    #[inline]
    pub fn position(&self, clock: Timestamp, deadline: Timestamp) -> Ring {
        let Some(left) = time_left(clock, deadline) else {
            return Ring::of(0, self.levels[0].index(clock));
        };
        let level = usize::from(self.by_magnitude[left.raw().ilog2() as usize]);
        Ring::of(level, self.levels[level].index(deadline))
    }
}

/// The time from `clock` to the deadline; `None` once the deadline has come.
#[inline]
pub fn time_left(clock: Timestamp, deadline: Timestamp) -> Option<Nanos> {
    let left = deadline.wrapping_since(clock);
    (left.raw().cast_signed() > 0).then_some(left)
}

/// Whether `now` is after `clock`. A difference of less than 2^62 ns (146 years) backwards counts
/// as a step back. All other differences count as steps forward, so that a clock that starts at the
/// least signed instant may run past zero.
#[inline]
pub fn is_later(clock: Timestamp, now: Timestamp) -> bool {
    let step = now.wrapping_since(clock).raw().cast_signed();
    step > 0 || step <= -(1 << 62)
}
