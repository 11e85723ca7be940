//! The file of the chart, looked at before a long run.

use anyhow::{Context, Result, bail};
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;

/// Finds out whether the chart can be written, and leaves everything as it is.
pub fn check(path: &Path, trace: Option<&str>) -> Result<()> {
    let shown = path.display();
    let how = || format!("cannot write the chart {shown} (--svg names another, --no-svg none)");
    let Ok(existing) = fs::metadata(path) else {
        return match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(_) => fs::remove_file(path).with_context(how),
            // A link to a file that does not exist yet.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error).with_context(how),
        };
    };
    let is_trace = |trace| Some(fs::canonicalize(path).ok()? == fs::canonicalize(trace).ok()?);
    if existing.is_dir() {
        bail!("{}: it is a directory", how());
    }
    if trace.and_then(is_trace).unwrap_or(false) {
        bail!("{}: it is the trace", how());
    }
    // Opening something else, such as a pipe, may wait for its reader.
    if existing.is_file() {
        OpenOptions::new().append(true).open(path).with_context(how)?;
    }
    Ok(())
}
