//! Macros for all rooms: what a recount finds, what a type shows of itself, and the word of a
//! number that has a type of its own.

/// Returns an error with this message from a recount if an invariant does not hold.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}
pub(crate) use ensure;

/// Implements `Debug` for a type that shows computed fields, and that there is more:
/// `debug_fields!(impl[K, V] Removals<K, V>, |it| waiting: it.len());`
macro_rules! debug_fields {
    (
        $(#[$doc:meta])*
        impl $([$($generics:tt)*])? $name:ident$(<$($argument:tt),+>)?,
        |$this:ident| $($field:ident: $value:expr),+ $(,)?
    ) => {
        impl$(<$($generics)*>)? ::std::fmt::Debug for $name$(<$($argument),+>)? {
            $(#[$doc])*
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let $this = self;
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &$value))+
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use debug_fields;

/// Gives a type that tells one kind of number from others its word: `number!(NodeId(u32));`
macro_rules! number {
    ($name:ident($word:ty)) => {
        impl $name {
            #[inline(always)]
            pub const fn from_raw(word: $word) -> Self {
                Self(word)
            }

            #[inline(always)]
            pub const fn raw(self) -> $word {
                self.0
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl ::std::fmt::LowerHex for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}
pub(crate) use number;
