//! Doors to the mechanisms.

macro_rules! doors {
    ($($room:ident)+) => { $(pub mod $room { pub use crate::$room::*; })+ };
}
doors! {
    buffer clock drain epoch executor flight hash index links list node outbox pool scheduler
    sketch wheel
}
pub mod policy {
    pub use crate::eviction::*;
}
pub mod sync {
    pub use crate::primitives::*;
}
