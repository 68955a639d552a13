//! How often which latency was seen, as a picture.
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (900, 500);
const BARS: usize = 50;

/// Bars of equal width over sorted values: the first one's left edge, their width, how many values each has.
fn bars(sorted: &[f64]) -> (f64, f64, Vec<u32>) {
    let (least, most) = (
        sorted.first().copied().unwrap_or(0.0),
        sorted.last().copied().unwrap_or(0.0),
    );
    // values that are all the same have a bar of some width too
    let width = ((most - least) / BARS as f64).max(least * 1e-3).max(1e-6);
    let mut counts = vec![0; BARS];
    for v in sorted {
        counts[(((v - least) / width) as usize).min(BARS - 1)] += 1;
    }
    (least, width, counts)
}

pub fn draw(path: &Path, title: &str, sorted_us: &[f64]) -> Result<()> {
    let fail = |e: &dyn std::fmt::Display| anyhow!("cannot draw {}: {e}", path.display());
    let (left, width, counts) = bars(sorted_us);
    let right = left + width * BARS as f64;
    let top = counts.iter().max().map_or(1, |n| n + n / 20 + 1);
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(|e| fail(&e))?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(left..right, 0..top)
        .map_err(|e| fail(&e))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_desc("microseconds of the device's time")
        .y_desc("messages")
        .draw()
        .map_err(|e| fail(&e))?;
    let bar = |(i, n): (usize, &u32)| {
        let x = left + width * i as f64;
        Rectangle::new([(x, 0), (x + width, *n)], BLUE.mix(0.7).filled())
    };
    chart
        .draw_series(counts.iter().enumerate().map(bar))
        .map_err(|e| fail(&e))?;
    area.present().map_err(|e| fail(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_bar_of_its_place() {
        let values: Vec<f64> = (0..500).map(|i| 2.0 + f64::from(i) / 100.0).collect();
        let (left, width, counts) = bars(&values);
        assert_eq!(left, 2.0);
        assert!((width - 4.99 / 50.0).abs() < 1e-9);
        assert_eq!(counts.iter().sum::<u32>(), 500);
        assert!(counts.iter().all(|n| (9..=12).contains(n)), "{counts:?}");
        let (_, width, counts) = bars(&[3.0; 7]);
        assert!(width > 0.0);
        assert_eq!(counts.iter().sum::<u32>(), 7);
    }
}
