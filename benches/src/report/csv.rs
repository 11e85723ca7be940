//! Records as CSV.

use super::Record;
use std::io::{self, Write};

/// Writes the records with a line of column names.
///
/// # Errors
/// As `to` fails.
pub fn write_csv(records: &[Record], to: impl Write) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(to);
    for record in records {
        writer.serialize(record)?;
    }
    writer.flush()
}
