//! A simple wheel: one bucket for each tick of the longest lifetime there is, an array of ids each.

use super::{TICK_SHIFT, Timers};

/// 73 minutes.
const BUCKETS: u64 = 1 << 18;

/// Arrays of ids, and where in them each id is.
pub struct Simple {
    buckets: Vec<Vec<u32>>,
    places: Vec<(u32, u32)>,
    tick: u64,
}

impl Timers for Simple {
    const NAME: &'static str = "simple wheel";
    const LATENESS: u64 = 1 << TICK_SHIFT;

    type Key = u32;

    fn new(ids: u32) -> Self {
        let buckets = vec![Vec::new(); BUCKETS as usize];
        Self { buckets, places: vec![(0, 0); ids as usize + 1], tick: 0 }
    }

    #[inline]
    fn schedule(&mut self, id: u32, deadline: u64) -> u32 {
        let tick = deadline.div_ceil(1 << TICK_SHIFT);
        debug_assert!(tick - self.tick < BUCKETS, "beyond the wheel");
        let number = tick % BUCKETS;
        let bucket = &mut self.buckets[number as usize];
        self.places[id as usize] = (number as u32, bucket.len() as u32);
        bucket.push(id);
        id
    }

    #[inline]
    fn cancel(&mut self, id: u32) {
        let (number, place) = self.places[id as usize];
        let bucket = &mut self.buckets[number as usize];
        bucket.swap_remove(place as usize);
        if let Some(&moved) = bucket.get(place as usize) {
            self.places[moved as usize].1 = place;
        }
    }

    fn expire(&mut self, now: u64, due: &mut impl FnMut(u32)) {
        let last = now >> TICK_SHIFT;
        while self.tick < last {
            self.tick += 1;
            self.buckets[(self.tick % BUCKETS) as usize].drain(..).for_each(&mut *due);
        }
    }
}
