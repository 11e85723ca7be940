//! Memory that the system is to take back while its addresses stay.
#![expect(unsafe_code, reason = "the system is told which pages have nothing in them")]

use std::ptr::NonNull;

/// How the beginnings of large chunks are aligned, so that their blocks begin with a page of the usual size.
pub const PAGE: usize = 4096;

/// Tells the system that it may have the pages which lie wholly within so many bytes from `start`: from some
/// moment on they read as zeros, until they are written to again. A hint: where it is not understood, and
/// for memory of another kind, they stay as they are.
///
/// # Safety
/// The bytes belong to one allocation of the caller's, who has nothing in them but what may as well be zero.
#[cfg(target_os = "linux")]
pub unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
    // SAFETY: no preconditions.
    let Ok(page) = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) else { return };
    let offset = start.align_offset(page);
    if offset >= bytes {
        return;
    }
    let whole = (bytes - offset) / page * page;
    if whole > 0 {
        // SAFETY: whole pages within the caller's bytes, of which zeros are as good.
        unsafe { libc::madvise(start.add(offset).as_ptr().cast(), whole, libc::MADV_DONTNEED) };
    }
}

/// There is no such hint here.
///
/// # Safety
/// As above.
#[cfg(not(target_os = "linux"))]
pub unsafe fn give_back(_start: NonNull<u8>, _bytes: usize) {}
