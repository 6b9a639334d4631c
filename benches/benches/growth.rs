//! The cost of a turn as a log grows, and as a store has more conversations. It should stay the same.
//!
//! A turn is one of the whole layer: a load, a plan, a call of a model that answers at once, and an append of two
//! messages of 250 bytes. Windows have 60 to 80 messages, or the whole log if that is shorter. Each store has a
//! database for each size:
//!
//! - `log`: logs of 100 to 1,000,000 messages. Turns are made one after the other in one conversation, until its log
//!   has grown by a fifth.
//! - `conversations`: 1,000 to 1,000,000 conversations of one exchange each. Plain turns choose among all of them, in
//!   an order that is not sequential. Cached turns choose among a hundred, which are spread over all of them.
//!
//! Plain turns use the store, and cached turns a `CachedStore` over it. For each store and form, the sizes alternate in
//! one run. The median time of each is printed, with its ratio to that of the smallest size. For SQLite, the numbers of
//! system calls per turn that read and that write follow, on Linux. Nearly all are SQLite's: it reads pages that are
//! not in its caches, and writes changed pages to its log (WAL) and, at a checkpoint, to the file.
//!
//! Run it with `cargo bench -p benches --bench growth`. It starts the servers from the installed programs, and needs 8
//! GB of memory and 10 GB on the disks of the target directory and of `/tmp`. A server that is not installed is left
//! out, and a line reports that. To measure only some stores, name them: `-- sqlite` (with its default,
//! `Synchronous::Full`), `-- sqlite-normal`, `-- postgres` or `-- redis`. A run that measures all of them writes the
//! charts of `docs/reports/growth.md`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{fs, path::Path, time::Instant};

use benches::{
    contest::{Contestant, paired, timed},
    growth::{Base, FORMS, STORES, Turns, of_conversations, of_logs},
};
use plotters::prelude::*;
use tokio::runtime::Runtime;

/// The numbers of messages of a log.
const MESSAGES: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
/// The numbers of conversations of a store.
const CONVERSATIONS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// With the warm-up, fewer than the conversations of the smallest store, so that plain turns use each of them once.
const ROUNDS: usize = 900;
/// The number of turns whose reads and writes of files are counted.
const COUNTED: u64 = 300;

const SIZE: (u32, u32) = (800, 420);
const LEGEND_WIDTH: i32 = 170;
const LIMIT: RGBColor = RGBColor(150, 150, 150);
const INK: RGBColor = RGBColor(40, 40, 40);

/// The colors of stores, in the order of their first lines.
const COLORS: [RGBColor; 4] =
    [RGBColor(31, 90, 166), RGBColor(242, 166, 90), RGBColor(74, 140, 92), RGBColor(176, 64, 72)];

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let runtime = Runtime::new().unwrap();
    let mut log_lines = Vec::new();
    let mut store_lines = Vec::new();
    for store in STORES.into_iter().filter(|store| is_selected(store)) {
        println!("sizes: messages of a log");
        if !bench(store, &runtime, &MESSAGES, &of_growing_logs, &mut log_lines) {
            continue;
        }
        println!("sizes: conversations of a store");
        bench(store, &runtime, &CONVERSATIONS, &of_conversations, &mut store_lines);
    }

    if store_lines.len() == STORES.len() * FORMS.len() {
        let reports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reports");
        write_chart(&reports.join("growth.svg"), "messages of the log", &log_lines);
        write_chart(&reports.join("growth-conversations.svg"), "conversations of the store", &store_lines);
    }
}

async fn of_growing_logs(base: &mut Base, messages: usize) -> [Turns; 2] {
    of_logs(base, messages, ROUNDS + ROUNDS / 10).await
}

/// Fills databases of all sizes, and compares their turns.
fn bench(
    store: &str,
    runtime: &Runtime,
    sizes: &[usize],
    fill: &impl AsyncFn(&mut Base, usize) -> [Turns; 2],
    lines: &mut Vec<Line>,
) -> bool {
    let Some(mut base) = Base::of(store, env!("CARGO_TARGET_TMPDIR")) else { return false };
    let start = Instant::now();
    let mut filled = Vec::new();
    for size in sizes {
        filled.push(runtime.block_on(fill(&mut base, *size)));
    }
    println!("{store}: the databases were filled in {:.0} s", start.elapsed().as_secs_f64());

    compare(store, runtime, sizes, &filled, lines);
    // The turns hold the stores, which are closed before their servers end.
    drop(filled);
    true
}

/// Compares the sizes, for each form. Adds the medians to the lines.
fn compare(store: &str, runtime: &Runtime, sizes: &[usize], filled: &[[Turns; 2]], lines: &mut Vec<Line>) {
    for (number, form) in FORMS.into_iter().enumerate() {
        let mut contest = Vec::new();
        for (size, forms) in sizes.iter().zip(filled) {
            contest.push(Contestant::of(thousands(*size as u64), runtime, move || forms[number].make()));
        }
        let medians = paired(&format!("{store}/{form}"), ROUNDS, contest);

        if store.starts_with("sqlite") {
            for (size, forms) in sizes.iter().zip(filled) {
                let before = system_calls();
                runtime.block_on(timed(COUNTED, || forms[number].make()));
                let after = system_calls();
                let [reads, writes] = [0, 1].map(|kind| (after[kind] - before[kind]) as f64 / COUNTED as f64);
                let name = thousands(*size as u64);
                println!("{store}/{form} {name:16} {reads:.1} reads and {writes:.1} writes per turn");
            }
        }
        lines.push(Line { store: store.into(), form, points: sizes.iter().copied().zip(medians).collect() });
    }
}

/// Returns the numbers of system calls of this process that read, and that write.
fn system_calls() -> [u64; 2] {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    ["syscr: ", "syscw: "].map(|name| {
        let count = io.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
        count.unwrap_or_default()
    })
}

/// A line: the sizes, and the time of a turn in microseconds for each.
#[derive(Clone, Debug)]
struct Line {
    /// The store.
    store: String,
    /// The form of the turns.
    form: &'static str,
    /// The points.
    points: Vec<(usize, f64)>,
}

/// Writes the chart. The axis of sizes is logarithmic, and that of times starts at 0.
fn write_chart(path: &Path, sizes: &str, lines: &[Line]) {
    let mut svg = String::new();
    draw(&mut svg, sizes, lines);
    svg.push('\n');
    std::fs::write(path, svg).unwrap();
    println!("{} was written", path.display());
}

fn draw(svg: &mut String, sizes: &str, lines: &[Line]) {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE).unwrap();
    let (left, legend) = root.split_horizontally(SIZE.0 as i32 - LEGEND_WIDTH);

    let points: Vec<(usize, f64)> = lines.iter().flat_map(|line| line.points.iter().copied()).collect();
    let first = points.iter().map(|point| point.0).min().unwrap();
    let last = points.iter().map(|point| point.0).max().unwrap();
    let highest = points.iter().map(|point| point.1).fold(0.0, f64::max) * 1.05;
    let mut chart = ChartBuilder::on(&left)
        .margin(12)
        .margin_right(32)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .build_cartesian_2d((first as f64..last as f64).log_scale(), 0.0..highest)
        .unwrap();
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(LIMIT.mix(0.4))
        .axis_style(LIMIT)
        .label_style(("sans-serif", 16).into_font().color(&INK))
        .x_desc(sizes)
        .x_label_formatter(&|size| thousands(size.round() as u64))
        .y_desc("µs per turn")
        .y_label_formatter(&|time| thousands(time.round() as u64))
        .y_labels(8)
        .draw()
        .unwrap();

    let mut stores: Vec<&str> = lines.iter().map(|line| &*line.store).collect();
    stores.dedup();
    let mut y = 24;
    for line in lines {
        let store = stores.iter().position(|store| *store == line.store).unwrap();
        let color = COLORS[store % COLORS.len()];

        // Lines of cached turns are thin, and their points are hollow.
        let is_cached = line.form == "cached";
        let width = if is_cached { 1 } else { 2 };
        let point = if is_cached { color.stroke_width(1) } else { color.filled().stroke_width(2) };
        let points: Vec<(f64, f64)> = line.points.iter().map(|(size, time)| (*size as f64, *time)).collect();
        chart.draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(width))).unwrap();
        chart.draw_series(points.into_iter().map(|at| Circle::new(at, 4, point))).unwrap();

        legend.draw(&PathElement::new([(0, y), (22, y)], color.stroke_width(width))).unwrap();
        legend.draw(&Circle::new((11, y), 4, point)).unwrap();
        let style = ("sans-serif", 15).into_font().color(&INK);
        let name = if is_cached { format!("{}, cached", line.store) } else { line.store.clone() };
        legend.draw(&Text::new(name, (30, y - 7), style)).unwrap();
        y += 24;
    }
    root.present().unwrap();
}

/// Formats a number with commas.
fn thousands(number: u64) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", thousands(number / 1_000), number % 1_000) }
}
