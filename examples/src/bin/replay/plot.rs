//! A picture of a run.

use std::path::Path;

use plotters::prelude::*;
use tower_chat_history::BoxError;

const SIZE: (u32, u32) = (1_000, 500);

/// Draws the tokens that were sent, and the warm ones among them, over the calls.
pub(crate) fn write(path: &Path, sizes: &[(u64, u64)]) -> Result<(), BoxError> {
    let mut svg = String::new();
    draw(&mut svg, sizes).map_err(|error| format!("{}: {error}", path.display()))?;
    std::fs::write(path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(())
}

fn draw(svg: &mut String, sizes: &[(u64, u64)]) -> Result<(), BoxError> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let most = sizes.iter().map(|(sent, _)| *sent).max().unwrap_or_default().max(1);
    let mut chart = ChartBuilder::on(&root)
        .margin(15)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(1..sizes.len().max(2), 0..most + most / 20)?;
    chart.configure_mesh().x_desc("call").y_desc("tokens").light_line_style(TRANSPARENT).draw()?;
    let lines: [(&str, RGBColor, fn(&(u64, u64)) -> u64); 2] =
        [("sent", RGBColor(200, 60, 40), |size| size.0), ("warm", RGBColor(40, 90, 160), |size| size.1)];
    for (name, color, tokens) in lines {
        chart
            .draw_series(LineSeries::new((1..).zip(sizes.iter().map(tokens)), &color))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}
