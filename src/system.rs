//! Gives memory back to the system while its addresses stay valid.
#![expect(unsafe_code, reason = "a system call names the pages that hold no data")]

use std::ptr::NonNull;

/// The alignment of the beginnings of large chunks. With it, their blocks begin with a page of the
/// usual size.
pub const PAGE: usize = 4096;

/// The smallest size of the system's huge pages.
#[cfg(target_os = "linux")]
const HUGE: usize = 1 << 16;

/// Whether this target has threads. Where it has none, starting one fails.
pub const HAS_THREADS: bool = !cfg!(all(target_family = "wasm", target_os = "unknown"));

/// The id of this process, by which a forked child is known. Zero where there are no processes.
pub fn process() -> u32 {
    if HAS_THREADS { std::process::id() } else { 0 }
}

/// Whether this target gives memory back at all.
pub const GIVES_BACK: bool = cfg!(target_os = "linux");

/// Tells the system that it may take back the pages that lie wholly within `bytes` bytes from
/// `start`. When this returns, these pages read as zeros until they are written to again. It is a
/// hint: the pages stay as they are where the system does not understand it, and for memory of
/// another kind.
///
/// An allocator may have its memory in huge pages (glibc's and mimalloc do, if told to). There,
/// some kernels round the given length *up*. But they require that the given range begins at a huge
/// page, so the range passed here never does. If addresses bear a memory tag, the system would drop
/// the tags of the pages. Such memory is left alone.
///
/// # Safety
/// The bytes belong to one allocation of the caller. The caller has nothing in them but data that
/// may as well be zero.
#[cfg(target_os = "linux")]
pub unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
    // SAFETY: `sysconf` has no preconditions.
    let Ok(page) = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) else { return };
    let mut offset = start.align_offset(page);
    if (start.addr().get() + offset).is_multiple_of(HUGE) {
        offset += page;
    }
    let is_tagged = usize::BITS == 64 && start.addr().get().leading_zeros() < 8;
    if page >= HUGE || offset >= bytes || is_tagged {
        return;
    }
    let whole = (bytes - offset) / page * page;
    if whole > 0 {
        // SAFETY: these are whole pages of the usual size within the caller's bytes, and zeros are
        // as good as the caller's data there.
        unsafe { libc::madvise(start.add(offset).as_ptr().cast(), whole, libc::MADV_DONTNEED) };
    }
}

/// Does nothing: there is no such hint on this target.
///
/// # Safety
/// As above.
#[cfg(not(target_os = "linux"))]
pub unsafe fn give_back(_start: NonNull<u8>, _bytes: usize) {}

/// How many hardware threads this process may use. (The standard library's count knows quotas, too,
/// by reading files; it takes 9 KiB of code.)
#[cfg(target_os = "linux")]
pub fn cores() -> usize {
    // SAFETY: a `cpu_set_t` is bits, all of which may be zero. The call writes no more than its
    // size.
    let count = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        match libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) {
            0 => libc::CPU_COUNT(&set),
            _ => 0,
        }
    };
    // None in a machine that has more than a set has room for.
    usize::try_from(count).ok().filter(|&count| count > 0).unwrap_or(16)
}

/// How many hardware threads this process may use.
#[cfg(not(target_os = "linux"))]
pub fn cores() -> usize {
    crate::primitives::thread::available_parallelism().map_or(4, |threads| threads.get())
}
