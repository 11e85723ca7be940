//! The queue of delayed items.

use super::core::TimerCore;
use super::id::TimerId;
use crate::clock::nanos;
use crate::macros::debug_fields;
use crate::wheel::Poll;
use std::time::Duration;

/// The tick that a queue has unless told otherwise.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// Items that wait for a deadline each. It has no thread and reads no clock: you tell it the time.
///
/// Instants are durations since an origin of your choice: the start of the program, a
/// [`ManualClock`](crate::ManualClock), the Unix epoch. The queue never goes back: with an earlier
/// `now` than the latest one it hands out what was due by the latest one, and what was inserted
/// since with a deadline before that.
///
/// # Promises
///
/// * An item is handed out at its deadline, rounded up to a whole tick: never early, and less than
///   a tick late if you ask in time. Deadlines that are whole numbers of ticks are met exactly. A
///   tick is a millisecond, or longer: [`with_tick`](Self::with_tick).
/// * [`insert_at`](Self::insert_at), [`try_remove`](Self::try_remove) and
///   [`try_reset_at`](Self::try_reset_at) take constant time, whatever the lifetime and however
///   many items there are.
/// * A call of [`poll`](Self::poll) looks at no more items than its budget says.
/// * Items come in the order of their ticks. Within a tick the order is unspecified. An item that
///   is inserted with a deadline that has passed comes after those that wait to be handed out.
/// * Memory is that of the items: 24 to 40 bytes beside each (48 for a type that is aligned to 16),
///   in chunks of 1,024 that are released when they are empty.
/// * Deadlines and times beyond 584 years count as 584 years. Then everything is due.
///
/// ```
/// use cortado::timer::{DelayQueue, Polled};
/// use std::time::Duration;
///
/// let mut orders = DelayQueue::new();
/// let minute = Duration::from_secs(60);
/// let paid = orders.insert_at("order 1", 30 * minute);
/// orders.insert_at("order 2", 31 * minute);
/// assert_eq!(orders.try_remove(&paid).unwrap().into_inner(), "order 1");
///
/// assert_eq!(orders.next_deadline(), Some(31 * minute));
/// let mut budget = 1024;
/// assert!(matches!(orders.poll(30 * minute, &mut budget), Polled::Idle));
/// let Polled::Due(expired) = orders.poll(31 * minute, &mut budget) else { unreachable!() };
/// assert_eq!((*expired.get_ref(), expired.deadline()), ("order 2", 31 * minute));
/// ```
pub struct DelayQueue<T> {
    core: TimerCore<T>,
}

/// The result of [`DelayQueue::poll`].
///
/// ```
/// use cortado::timer::{DelayQueue, Polled};
/// use std::time::Duration;
///
/// /// Does what is due, a bounded part of it. True if there may be more.
/// fn work(queue: &mut DelayQueue<&str>, now: Duration) -> bool {
///     let mut budget = 1024;
///     loop {
///         match queue.poll(now, &mut budget) {
///             Polled::Due(message) => println!("{} is due", message.get_ref()),
///             Polled::Exhausted => return true,
///             Polled::Idle => return false,
///         }
///     }
/// }
///
/// let mut queue = DelayQueue::new();
/// queue.insert_at("tea", Duration::from_secs(180));
/// assert!(!work(&mut queue, Duration::from_secs(180)));
/// assert!(queue.is_empty());
/// ```
#[derive(Debug)]
#[must_use]
pub enum Polled<T> {
    /// This item is due. It has left the queue.
    Due(Expired<T>),
    /// The budget is used up, and there may be more that is due.
    Exhausted,
    /// Nothing else is due.
    Idle,
}

/// An item that has left a queue, with its id and its deadline. `At` is the type of deadlines:
/// `Duration` in [`DelayQueue`], tokio's `Instant` in `timer::delay_queue::DelayQueue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired<T, At = Duration> {
    pub(super) key: TimerId,
    pub(super) deadline: At,
    pub(super) value: T,
}

impl<T, At: Copy> Expired<T, At> {
    /// The id that it had, by tokio-util's name. It names no item any more.
    pub fn key(&self) -> TimerId {
        self.key
    }

    /// The deadline that it had.
    pub fn deadline(&self) -> At {
        self.deadline
    }

    /// The item.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// The item, to be changed.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// The item, without the rest.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> DelayQueue<T> {
    /// Creates an empty queue with a tick of a millisecond. It allocates nothing for items yet.
    #[must_use]
    pub fn new() -> Self {
        Self::with_tick(TICK)
    }

    /// Creates an empty queue with a tick of this length. With a longer tick, items that wait long
    /// are moved less often, and items are handed out up to a tick late.
    ///
    /// # Panics
    ///
    /// Panics if the tick is shorter than a millisecond.
    ///
    /// ```
    /// use cortado::timer::DelayQueue;
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// let mut queue = DelayQueue::with_tick(second);
    /// queue.insert_at((), second / 2);
    /// assert_eq!(queue.next_deadline(), Some(second));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn with_tick(tick: Duration) -> Self {
        Self { core: TimerCore::new(tick, 0) }
    }

    /// Inserts an item. A deadline that has passed is due at the next [`poll`](Self::poll).
    ///
    /// # Panics
    ///
    /// Panics if there are 2,147,482,624 items: the ids are used up.
    pub fn insert_at(&mut self, value: T, deadline: Duration) -> TimerId {
        let id = self.core.insert(nanos(deadline).raw(), value);
        id.ok().expect("a queue holds 2,147,482,624 items")
    }

    /// Takes an item out before its time. `None` if it has left.
    pub fn try_remove(&mut self, id: &TimerId) -> Option<Expired<T>> {
        let (deadline, value) = self.core.remove(*id)?;
        Some(Expired { key: *id, deadline: Duration::from_nanos(deadline), value })
    }

    /// Gives an item another deadline, earlier or later. False if it has left.
    ///
    /// An extension only writes the deadline down; see [`next_deadline`](Self::next_deadline).
    ///
    /// ```
    /// use cortado::timer::DelayQueue;
    /// use std::time::Duration;
    ///
    /// let mut idle = DelayQueue::new();
    /// let timeout = Duration::from_secs(30);
    /// let connection = idle.insert_at("10.0.0.7:5123", timeout);
    /// let now = Duration::from_secs(12); // it sent something
    /// assert!(idle.try_reset_at(&connection, now + timeout));
    /// assert_eq!(idle.try_deadline(&connection), Some(Duration::from_secs(42)));
    /// ```
    pub fn try_reset_at(&mut self, id: &TimerId, deadline: Duration) -> bool {
        let is_there = self.core.slab().contains(*id);
        if is_there {
            self.core.schedule(*id, nanos(deadline).raw());
        }
        is_there
    }

    /// Hands out the next item that is due at `now`. Takes one from `budget` for each look at an
    /// item: when it is handed out, when it is sorted with others before that, and at most once for
    /// each of eight levels when the wheel moves it closer.
    ///
    /// ```
    /// use cortado::timer::{DelayQueue, Polled};
    /// use std::time::Duration;
    ///
    /// let mut queue: DelayQueue<u32> = DelayQueue::new();
    /// let second = Duration::from_secs(1);
    /// (0..10_000).for_each(|n| _ = queue.insert_at(n, second));
    /// // All are due at one instant. Work off 1,024, do something else, and go on.
    /// let (mut turns, mut fired) = (0, 0);
    /// loop {
    ///     let mut budget = 1024;
    ///     while let Polled::Due(_) = queue.poll(2 * second, &mut budget) {
    ///         fired += 1;
    ///     }
    ///     turns += 1;
    ///     if queue.is_empty() {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(fired, 10_000);
    /// assert!(turns >= 10);
    /// ```
    pub fn poll(&mut self, now: Duration, budget: &mut u32) -> Polled<T> {
        match self.core.poll(nanos(now).raw(), budget) {
            Poll::Due(slot) => match self.core.slab_mut().remove_named(slot) {
                Some((key, deadline, value)) => {
                    let deadline = Duration::from_nanos(deadline);
                    Polled::Due(Expired { key, deadline, value })
                }
                None => Polled::Idle,
            },
            Poll::Exhausted => Polled::Exhausted,
            Poll::Idle => Polled::Idle,
        }
    }

    /// Follows a clock that has gone back to `now`: items that came since then are not due at once.
    #[cfg(feature = "tokio")]
    pub(super) fn rewind(&mut self, now: Duration) {
        self.core.rewind(nanos(now).raw());
    }

    /// When to [`poll`](Self::poll) next; `None` if the queue is empty.
    ///
    /// It is the tick at which the earliest item is due. To find that tick, this looks at 64 items
    /// at most. If these do not tell, it returns an earlier instant, at which the next `poll` moves
    /// items closer. So whoever sleeps until then is never late. If there are few items, it wakes
    /// up for due items only.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.core.next_deadline().map(Duration::from_nanos)
    }

    /// The deadline of an item; `None` if it has left.
    #[must_use]
    pub fn try_deadline(&self, id: &TimerId) -> Option<Duration> {
        self.core.slab().deadline_of(*id).map(Duration::from_nanos)
    }

    /// An item; `None` if it has left.
    #[must_use]
    pub fn get(&self, id: &TimerId) -> Option<&T> {
        self.core.slab().get(*id)
    }

    /// An item, to be changed; `None` if it has left.
    ///
    /// ```
    /// use cortado::timer::DelayQueue;
    /// use std::time::Duration;
    ///
    /// let mut retries = DelayQueue::new();
    /// let id = retries.insert_at(("request", 1), Duration::from_secs(1));
    /// if let Some((_, tries)) = retries.get_mut(&id) {
    ///     *tries += 1;
    ///     retries.try_reset_at(&id, Duration::from_secs(3));
    /// }
    /// assert_eq!(retries.get(&id), Some(&("request", 2)));
    /// ```
    pub fn get_mut(&mut self, id: &TimerId) -> Option<&mut T> {
        self.core.slab_mut().get_mut(*id)
    }

    /// The number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.core.slab().len()
    }

    /// Whether there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of items for which there is memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.core.slab().capacity()
    }

    /// Makes room for `additional` items: as long as no item leaves, these insertions allocate
    /// nothing for items. (The wheel allocates the buckets of a level when it first uses the level:
    /// at most 1 KiB for each level.)
    ///
    /// # Panics
    ///
    /// Panics if there would be more than 2,147,482,624 items.
    pub fn reserve(&mut self, additional: usize) {
        self.core.slab_mut().reserve(additional);
    }

    /// Gives back memory that holds no item. Without a call, a queue gives back each chunk of 1,024
    /// places that becomes empty, but for the last one.
    ///
    /// Items do not move, and ids stay valid. So each chunk keeps its memory up to its last item.
    /// Later insertions fill the first places first, so that a later call can give back more. Takes
    /// time in proportion to [`capacity`](Self::capacity).
    ///
    /// ```
    /// use cortado::timer::DelayQueue;
    /// use std::time::Duration;
    ///
    /// let mut queue = DelayQueue::new();
    /// queue.reserve(5_000);
    /// let id = queue.insert_at("item", Duration::from_secs(1));
    /// queue.shrink_to_fit();
    /// assert_eq!((queue.capacity(), queue.get(&id)), (1, Some(&"item")));
    /// ```
    pub fn shrink_to_fit(&mut self) {
        self.core.shrink_to_fit();
    }

    /// Iterates over all items by their deadlines, soonest first. Items of one deadline come in no
    /// particular order.
    ///
    /// The order is exact otherwise. Each step sorts in at most one bucket of the wheel, so the
    /// first few items cost little, however many there are.
    ///
    /// ```
    /// use cortado::timer::DelayQueue;
    /// use std::time::Duration;
    ///
    /// let mut queue = DelayQueue::new();
    /// for (name, seconds) in [("tea", 180), ("egg", 300), ("toast", 90)] {
    ///     queue.insert_at(name, Duration::from_secs(seconds));
    /// }
    /// let names: Vec<&str> = queue.soonest().map(|(_, _, name)| *name).collect();
    /// assert_eq!(names, ["toast", "tea", "egg"]);
    /// ```
    pub fn soonest(&self) -> impl Iterator<Item = (TimerId, Duration, &T)> {
        self.core.soonest().filter_map(|(id, deadline)| {
            Some((id, Duration::from_nanos(deadline), self.core.slab().get(id)?))
        })
    }

    /// Takes out all items at once, due or not, in no particular order. What the iterator does not
    /// reach is dropped with it. The ids of these items never become valid again.
    ///
    /// ```
    /// use cortado::timer::DelayQueue;
    /// use std::time::Duration;
    ///
    /// let mut queue = DelayQueue::new();
    /// let ids = [30, 90].map(|seconds| queue.insert_at(seconds, Duration::from_secs(seconds)));
    /// // Moves all items to a queue whose time is ten seconds ahead.
    /// let mut other = DelayQueue::new();
    /// for item in queue.drain() {
    ///     other.insert_at(*item.get_ref(), item.deadline() + Duration::from_secs(10));
    /// }
    /// assert!(queue.is_empty() && queue.get(&ids[0]).is_none());
    /// assert_eq!(other.next_deadline(), Some(Duration::from_secs(40)));
    /// other.clear();
    /// assert_eq!(other.len(), 0);
    /// ```
    pub fn drain(&mut self) -> impl Iterator<Item = Expired<T>> + use<T> {
        self.core.take_all().map(|(key, deadline, value)| Expired {
            key,
            deadline: Duration::from_nanos(deadline),
            value,
        })
    }

    /// Drops all items. Their ids never become valid again.
    pub fn clear(&mut self) {
        drop(self.drain());
    }

    /// A queue whose slots have been used almost as often as they can be; for this repository's
    /// own tests.
    #[cfg(any(feature = "internals", cortado_loom))]
    #[doc(hidden)]
    pub fn aged(generation: u32) -> Self {
        let mut queue = Self::new();
        queue.core.slab_mut().begin_with(generation);
        queue
    }

    /// Recounts everything; for this repository's own tests.
    ///
    /// # Errors
    ///
    /// Describes the first error that it finds.
    #[cfg(any(feature = "internals", cortado_loom))]
    #[doc(hidden)]
    pub fn audit(&self) -> Result<(), String> {
        self.core.validate()
    }
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

debug_fields!(
    /// Shows the number of items and the next deadline.
    impl[T] DelayQueue<T>, |it| len: it.len(), next_deadline: it.next_deadline()
);
