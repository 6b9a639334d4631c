//! A chart of the time of a turn over a size.

use std::path::Path;

use plotters::prelude::*;

const SIZE: (u32, u32) = (800, 420);
const LEGEND_WIDTH: i32 = 170;
const LIMIT: RGBColor = RGBColor(150, 150, 150);
const INK: RGBColor = RGBColor(40, 40, 40);

/// The colors of stores, in the order of their first lines.
const COLORS: [RGBColor; 4] =
    [RGBColor(31, 90, 166), RGBColor(242, 166, 90), RGBColor(74, 140, 92), RGBColor(176, 64, 72)];

/// A line: the sizes, and the time of a turn in microseconds for each.
#[derive(Clone, Debug)]
pub struct Line {
    /// The store.
    pub store: String,
    /// The form of the turns.
    pub form: &'static str,
    /// The points.
    pub points: Vec<(usize, f64)>,
}

/// Writes the chart. The axis of sizes is logarithmic, and that of times starts at 0.
pub fn write(path: &Path, sizes: &str, lines: &[Line]) {
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
    let points = || lines.iter().flat_map(|line| &line.points);
    let (first, last) = (points().map(|point| point.0).min().unwrap(), points().map(|point| point.0).max().unwrap());
    let highest = points().map(|point| point.1).fold(0.0, f64::max) * 1.05;
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
        let (width, point) =
            if line.form == "cached" { (1, color.stroke_width(1)) } else { (2, color.filled().stroke_width(2)) };
        let at = || line.points.iter().map(|(size, time)| (*size as f64, *time));
        chart.draw_series(LineSeries::new(at(), color.stroke_width(width))).unwrap();
        chart.draw_series(at().map(|at| Circle::new(at, 4, point))).unwrap();
        legend.draw(&PathElement::new([(0, y), (22, y)], color.stroke_width(width))).unwrap();
        legend.draw(&Circle::new((11, y), 4, point)).unwrap();
        let style = ("sans-serif", 15).into_font().color(&INK);
        let name = if line.form == "cached" { format!("{}, cached", line.store) } else { line.store.clone() };
        legend.draw(&Text::new(name, (30, y - 7), style)).unwrap();
        y += 24;
    }
    root.present().unwrap();
}

/// Formats a number with commas.
#[must_use]
pub fn thousands(number: u64) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", thousands(number / 1_000), number % 1_000) }
}
