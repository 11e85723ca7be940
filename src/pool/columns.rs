//! Columns: words that the nodes of some caches have beside their fixed part.
//!
//! A cache pays for the columns that it was built with, and for no other: they lie behind the nodes
//! of a chunk, one array of words per column. So a node keeps its size, and plain reads never touch
//! a column's cache lines. A pool in one flat mapping would lay them out in the same way.

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// When the entry ends although it is read: in caches with an idle time.
    HardDeadline,
    /// When a read is to trigger a reload: in caches with refresh.
    Refresh,
}

/// The columns of a pool, chosen when the cache is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns(u8);

const _: () = assert!(Column::Refresh as usize + 1 == Columns::MAX);
const _: () = assert!(Columns::MAX * size_of::<u64>() <= size_of::<crate::node::Meta>());

impl Columns {
    /// No pool has more. A chunk that is just being published is taken for one of a single node:
    /// its second node then stands for the words of the columns, and begins with six.
    pub const MAX: usize = 2;

    /// No columns.
    pub const NONE: Self = Self(0);

    /// These columns and one more.
    #[must_use]
    pub const fn with(self, column: Column) -> Self {
        Self(self.0 | 1 << column as u8)
    }

    pub const fn has(self, column: Column) -> bool {
        self.0 & 1 << column as u8 != 0
    }

    /// The number of columns.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The number of columns before this one.
    pub const fn position(self, column: Column) -> usize {
        (self.0 & ((1 << column as u8) - 1)).count_ones() as usize
    }
}
