//! A chart of a run: the prompt of every call, and its cached prefix.

use std::path::Path;

use plotters::prelude::*;
use tower_chat_history::BoxError;

const WIDTH: u32 = 800;
/// The height of one panel, without the legend.
const PANEL_HEIGHT: u32 = 220;
const LEGEND_HEIGHT: u32 = 40;
/// Room to the left of a panel, for the labels of its axis.
const AXIS_WIDTH: u32 = 74;

const CACHED: RGBColor = RGBColor(31, 90, 166);
const NOT_CACHED: RGBColor = RGBColor(242, 166, 90);
const LIMIT: RGBColor = RGBColor(150, 150, 150);
const INK: RGBColor = RGBColor(40, 40, 40);

/// A policy's calls, for one panel of the chart.
#[derive(Debug)]
pub(crate) struct Panel {
    /// The policy.
    pub(crate) title: String,
    pub(crate) calls: Vec<Bar>,
}

/// One call, in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub(crate) prompt: u64,
    pub(crate) cached: u64,
    pub(crate) limit: u64,
}

impl Panel {
    /// Returns the share of all prompt tokens that are in the cached prefix.
    fn cached_percent(&self) -> u64 {
        let prompt: u64 = self.calls.iter().map(|call| call.prompt).sum();
        let cached: u64 = self.calls.iter().map(|call| call.cached).sum();
        (100 * cached + prompt / 2).checked_div(prompt).unwrap_or_default()
    }
}

/// Writes the chart: a panel for each policy, one below the other, on the same scale.
pub(crate) fn write(path: &Path, panels: &[Panel]) -> Result<(), BoxError> {
    let mut svg = String::new();
    draw(&mut svg, panels).map_err(|error| format!("{}: {error}", path.display()))?;
    svg.push('\n');
    std::fs::write(path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(())
}

fn draw(svg: &mut String, panels: &[Panel]) -> Result<(), BoxError> {
    let rows = u32::try_from(panels.len())?;
    let root = SVGBackend::with_string(svg, (WIDTH, LEGEND_HEIGHT + rows * PANEL_HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;

    let (top, below) = root.split_vertically(LEGEND_HEIGHT);
    draw_legend(&top)?;

    let calls = panels.iter().flat_map(|panel| &panel.calls);
    let highest = calls.map(|call| call.prompt.max(call.limit)).max().unwrap_or_default().max(1);
    for (area, panel) in below.split_evenly((panels.len(), 1)).iter().zip(panels) {
        draw_panel(area, panel, highest + highest / 20)?;
    }

    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws one bar per call.
fn draw_panel(area: &Area<'_>, panel: &Panel, highest: u64) -> Result<(), BoxError> {
    let calls = u32::try_from(panel.calls.len())?.max(1);
    let title = format!("{}: {}% of all prompt tokens are in the cached prefix", panel.title, panel.cached_percent());
    let mut chart = ChartBuilder::on(area)
        .margin_top(10)
        .margin_left(8)
        .margin_right(16)
        .caption(title, ("sans-serif", 20).into_font().color(&INK))
        .x_label_area_size(42)
        .y_label_area_size(AXIS_WIDTH)
        .build_cartesian_2d(0.5..f64::from(calls) + 0.5, 0..highest)?;

    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(LIMIT.mix(0.4))
        .axis_style(LIMIT)
        .label_style(("sans-serif", 16).into_font().color(&INK))
        .x_desc("call")
        .x_label_formatter(&|call| format!("{call:.0}"))
        .y_desc("prompt tokens")
        .y_label_formatter(&|tokens| thousands(*tokens))
        .y_labels(6)
        .draw()?;

    for (call, number) in panel.calls.iter().zip(1_u32..) {
        let cached = call.cached.min(call.prompt);
        chart
            .draw_series([rectangle(number, 0, cached, CACHED), rectangle(number, cached, call.prompt, NOT_CACHED)])?;
    }

    let limits = panel.calls.iter().zip(1_u32..).map(|(call, number)| (f64::from(number), call.limit));
    chart.draw_series(LineSeries::new(limits, &INK))?;
    Ok(())
}

/// Returns a part of the bar of a call.
fn rectangle(call: u32, from: u64, to: u64, color: RGBColor) -> Rectangle<(f64, u64)> {
    let call = f64::from(call);
    Rectangle::new([(call - 0.5, from), (call + 0.5, to)], color.filled())
}

/// Formats a number with commas.
fn thousands(number: u64) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", thousands(number / 1_000), number % 1_000) }
}

/// Draws the legend above all panels.
fn draw_legend(area: &Area<'_>) -> Result<(), BoxError> {
    let style = ("sans-serif", 17).into_font().color(&INK);
    let mut x = i32::try_from(AXIS_WIDTH)? + 8;
    for (name, color, width) in
        [("cached prefix", CACHED, 150), ("rest of the prompt", NOT_CACHED, 190), ("limit of the prompt", INK, 0)]
    {
        let (top, bottom) = if color == INK { (17, 19) } else { (12, 24) };
        area.draw(&Rectangle::new([(x, top), (x + 16, bottom)], color.filled()))?;
        area.draw(&Text::new(name, (x + 23, 11), style.clone()))?;
        x += width;
    }
    Ok(())
}
