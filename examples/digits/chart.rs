//! A loss curve, in the terminal and as SVG.

use std::fmt::Write as _;

/// The mean of the values that fall into each of `columns` equal parts.
fn averages(values: &[f32], columns: usize) -> Vec<f32> {
    let columns = columns.min(values.len());
    let part = |c: usize| &values[c * values.len() / columns..(c + 1) * values.len() / columns];
    (0..columns).map(|c| part(c).iter().sum::<f32>() / part(c).len() as f32).collect()
}

/// The curve in `rows` lines of text, on a logarithmic scale, with eighths of a character as the
/// resolution.
pub fn text(values: &[f32], columns: usize, rows: usize) -> String {
    let points: Vec<f32> = averages(values, columns).iter().map(|v| v.max(1e-6).ln()).collect();
    let (low, high) = bounds(&points);
    let mut chart = String::new();
    for row in (0..rows).rev() {
        let label = if row + 1 == rows { high.exp() } else { low.exp() };
        let edge = row + 1 == rows || row == 0;
        let _ = write!(chart, "{}", if edge { format!("{label:8.3} ┤") } else { format!("{:8} │", "") });
        for p in &points {
            let eighths = ((p - low) / (high - low) * (rows * 8) as f32) as i32 - (row * 8) as i32;
            chart.push([' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][eighths.clamp(0, 8) as usize]);
        }
        chart.push('\n');
    }
    chart
}

/// The curve as an SVG picture, on a logarithmic scale.
pub fn svg(values: &[f32], title: &str) -> String {
    let (width, height, margin) = (720.0, 360.0, 48.0);
    let points: Vec<f32> = averages(values, 360).iter().map(|v| v.max(1e-6).ln()).collect();
    let (low, high) = bounds(&points);
    let x = |i: usize| margin + (width - 2.0 * margin) * i as f32 / (points.len().max(2) - 1) as f32;
    let y = |p: f32| height - margin - (height - 2.0 * margin) * (p - low) / (high - low);
    let line: Vec<String> =
        points.iter().enumerate().map(|(i, &p)| format!("{:.1},{:.1}", x(i), y(p))).collect();
    let mut grid = String::new();
    for tick in 0..5 {
        let p = low + (high - low) * tick as f32 / 4.0;
        let _ = writeln!(
            grid,
            r##"<line x1="{margin}" x2="{}" y1="{y:.1}" y2="{y:.1}" stroke="#ddd"/><text x="{}" y="{:.1}" text-anchor="end">{:.3}</text>"##,
            width - margin,
            margin - 6.0,
            y(p) + 4.0,
            p.exp(),
            y = y(p),
        );
    }
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="white"/>
<text x="{margin}" y="24" font-size="14">{title}</text>
{grid}<polyline fill="none" stroke="#c4501b" stroke-width="1.5" points="{}"/>
<text x="{}" y="{}" text-anchor="end">step {}</text>
</svg>
"##,
        line.join(" "),
        width - margin,
        height - margin + 20.0,
        values.len(),
    )
}

fn bounds(points: &[f32]) -> (f32, f32) {
    let low = points.iter().copied().fold(f32::INFINITY, f32::min);
    let high = points.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if high > low { (low, high) } else { (low - 1.0, high + 1.0) }
}
