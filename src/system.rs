//! Memory that the system is to take back while its addresses stay.
#![expect(unsafe_code, reason = "the system is told which pages have nothing in them")]

use std::ptr::NonNull;

/// How the beginnings of large chunks are aligned, so that their blocks begin with a page of the
/// usual size.
pub const PAGE: usize = 4096;

/// The least size of the system's huge pages.
#[cfg(target_os = "linux")]
const HUGE: usize = 1 << 16;

/// Whether anything is given back.
pub const GIVES_BACK: bool = cfg!(target_os = "linux");

/// Tells the system that it may have the pages which lie wholly within so many bytes from `start`:
/// when this returns they read as zeros, until they are written to again. A hint: where it is not
/// understood, and for memory of another kind, they stay as they are.
///
/// An allocator may have its memory in huge pages (glibc's and mimalloc do, if told to), and there
/// some kernels round the length of what they are told of *up*. But they want its beginning to be
/// that of a huge page, so it never is. Of memory whose addresses bear a tag the system would drop
/// the tags; that is left alone.
///
/// # Safety
/// The bytes belong to one allocation of the caller's, who has nothing in them but what may as well
/// be zero.
#[cfg(target_os = "linux")]
pub unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
    // SAFETY: no preconditions.
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
        // SAFETY: whole pages of the usual size within the caller's bytes, of which zeros are as
        // good.
        unsafe { libc::madvise(start.add(offset).as_ptr().cast(), whole, libc::MADV_DONTNEED) };
    }
}

/// There is no such hint here.
///
/// # Safety
/// As above.
#[cfg(not(target_os = "linux"))]
pub unsafe fn give_back(_start: NonNull<u8>, _bytes: usize) {}
