//! Hit ratio and resident entries over time, in bounded memory.

use std::time::Duration;

/// What is kept while the replay runs; neighbours are joined when there are more.
const MOST_POINTS: usize = 4096;

/// A stretch of the replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    /// At its end: trace time, and requests so far.
    pub at: Duration,
    pub requests: u64,
    /// Within it.
    pub lookups: u64,
    pub hits: u64,
    /// At its end.
    pub resident: u64,
}

impl Point {
    fn join(self, next: Self) -> Self {
        Self { lookups: self.lookups + next.lookups, hits: self.hits + next.hits, ..next }
    }
}

#[derive(Default)]
pub struct Series {
    points: Vec<Point>,
}

impl Series {
    pub fn push(&mut self, point: Point) {
        if self.points.len() == MOST_POINTS {
            self.points = self.points.chunks(2).filter_map(join).collect();
        }
        self.points.push(point);
    }

    /// At most `count` stretches of equal length, by `place` (time or requests); empty ones are
    /// left out.
    pub fn bins(&self, count: usize, place: impl Fn(&Point) -> f64) -> Vec<Point> {
        let Some(last) = self.points.last() else { return Vec::new() };
        let width = (place(last) / count as f64).max(f64::MIN_POSITIVE);
        let bin = |point: &Point| ((place(point) / width).ceil() as usize).clamp(1, count);
        self.points.chunk_by(|a, b| bin(a) == bin(b)).filter_map(join).collect()
    }
}

fn join(points: &[Point]) -> Option<Point> {
    points.iter().copied().reduce(Point::join)
}
