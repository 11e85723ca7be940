//! The spans of loads and reloads, by the feature `tracing`. Without the feature, all here is
//! nothing.
//!
//! A span belongs to a loader that runs: it begins with it, in the span of the call that asked for
//! the value, and ends with it. It is entered while the loader's code runs, on whichever thread.
//! The subscriber is code of the user's: no lock is held where it is called.

/// What a loader runs for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Load,
    BulkLoad,
    Reload,
}

#[cfg(feature = "tracing")]
pub use traced::Span;
#[cfg(not(feature = "tracing"))]
pub use untraced::Span;

#[cfg(feature = "tracing")]
mod traced {
    use super::Work;
    use tracing::field::Empty;

    /// A span, or none.
    #[derive(Clone)]
    pub struct Span(tracing::Span);

    /// The time on a thread in which a span is the current one.
    pub type Entered<'a> = tracing::span::Entered<'a>;

    impl Span {
        pub const NONE: Self = Self(tracing::Span::none());

        /// The current one, for work that goes on elsewhere.
        pub fn current() -> Self {
            Self(tracing::Span::current())
        }

        /// That of a loader that is about to run, in the current one.
        pub fn begin(work: Work, cache: Option<&str>) -> Self {
            macro_rules! span {
                ($name:literal) => {
                    tracing::info_span!(target: "cortado", $name, cache.name = cache, outcome = Empty)
                };
            }
            Self(match work {
                Work::Load => span!("cache.load"),
                Work::BulkLoad => span!("cache.load_many"),
                Work::Reload => span!("cache.reload"),
            })
        }

        pub fn enter(&self) -> Entered<'_> {
            self.0.enter()
        }

        /// Notes whether the loader has made a value.
        pub fn note_outcome(&self, has_value: bool) {
            self.0.record("outcome", if has_value { "value" } else { "none" });
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod untraced {
    use super::Work;
    use std::marker::PhantomData;

    #[derive(Clone)]
    pub struct Span;

    pub struct Entered<'a>(PhantomData<&'a ()>);

    impl Span {
        pub const NONE: Self = Self;

        pub fn current() -> Self {
            Self
        }

        pub fn begin(_: Work, _: Option<&str>) -> Self {
            Self
        }

        pub fn enter(&self) -> Entered<'_> {
            Entered(PhantomData)
        }

        pub fn note_outcome(&self, _: bool) {}
    }
}
