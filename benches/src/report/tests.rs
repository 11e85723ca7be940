use super::*;

fn record(subject: &str, at: u64, median: f64) -> Record {
    Record::new("reads, \"hot\"", subject, (at, "threads"), ("time", "ns"), median.into())
}

#[test]
fn ratios_are_to_the_same_thing_of_the_reference() {
    let mut records =
        [record("a", 1, 10.0), record("b", 1, 25.0), record("b", 2, 30.0), record("a", 2, 0.0)];
    compare(&mut records, "a");
    let ratios: Vec<_> = records.iter().map(|record| record.ratio).collect();
    assert_eq!(ratios, [Some(1.0), Some(2.5), None, None]);
    compare(&mut records, "b");
    let ratios: Vec<_> = records.iter().map(|record| record.ratio).collect();
    assert_eq!(ratios, [Some(0.4), Some(1.0), Some(1.0), Some(0.0)]);
    compare(&mut records, "nobody");
    assert!(records.iter().all(|record| record.ratio.is_none()));
}

#[test]
fn shares_have_no_ratio() {
    let share = |subject| Record::new("reads", subject, (1, "threads"), ("hits", "%"), 50.0.into());
    let mut records = [share("a"), share("b")];
    compare(&mut records, "a");
    assert_eq!(records.map(|record| record.ratio), [None, None]);
}

#[test]
fn tables_have_a_row_per_subject_and_a_column_per_parameter() {
    let mut records = vec![record("a", 1, 10.0), record("a", 2000, 20.0), record("b", 2000, 50.0)];
    compare(&mut records, "a");
    assert_eq!(
        table("reads", &records).to_string(),
        "\
| reads: time, ns |     1 thread | 2,000 threads |
|-----------------|--------------|---------------|
| a               | 10.0 (1.00×) |  20.0 (1.00×) |
| b               |            – |  50.0 (2.50×) |"
    );
    let hits = ("hits", "%");
    records.push(Record::new("reads", "b", (1, "threads"), hits, 99.0.into()));
    assert_eq!(
        table("reads", &records[1..]).to_string(),
        "\
| reads | time, ns, 2,000 threads | hits, %, 1 thread |
|-------|-------------------------|-------------------|
| a     |            20.0 (1.00×) |                 – |
| b     |            50.0 (2.50×) |              99.0 |"
    );
}

#[test]
fn csv_survives_commas_and_quotes() {
    let mut records = [record("a,b", 1, 10.5), record("c", 1, 21.0)];
    compare(&mut records, "a,b");
    let mut text = Vec::new();
    write_csv(&records, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let head = "case,subject,parameter,at,metric,unit,median,low,high,ratio\n";
    assert!(text.starts_with(head), "{text}");
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<Vec<String>> = reader.deserialize().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows[0][..2], ["reads, \"hot\"", "a,b"]);
    assert_eq!(rows[0][6], "10.5");
    assert_eq!(rows[1][9], "2.0");
}

#[test]
fn file_names_are_plain() {
    assert_eq!(file_name("90 % reads, 10 % updates"), "90-reads-10-updates.svg");
}

/// Draws to a file of this name and returns what is in it.
fn drawn(name: &str, draw: impl FnOnce(&std::path::Path) -> anyhow::Result<()>) -> String {
    let path = std::env::temp_dir().join(format!("cortado-benches-{}-{name}", std::process::id()));
    draw(&path).unwrap();
    let svg = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    svg
}

#[test]
fn plots_show_every_subject() {
    let series = |record: &Record| format!("{} threads", record.at);
    let near = [record("a", 1, 10.0), record("a", 2, 20.0), record("b", 2, 50.0)];
    let far = [record("a", 1, 10.0), record("a", 2, 20.0), record("b", 2, 5e6)];
    let bars = drawn("bars.svg", |path| rows(path, "title", &near, series));
    let dots = drawn("dots.svg", |path| rows(path, "title", &far, series));
    let lines = drawn("lines.svg", |path| curves(path, "title", &far));
    for svg in [&bars, &dots, &lines] {
        for text in ["title", "a", "b"] {
            assert!(svg.contains(&format!("\n{text}\n")), "no {text} in {svg}");
        }
    }
    assert_eq!(bars.matches("<circle").count(), 0);
    assert_eq!(dots.matches("<circle").count(), 3);
    assert_eq!(lines.matches("<circle").count(), 3);
}
