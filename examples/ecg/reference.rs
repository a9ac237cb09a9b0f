//! What the actors are to find, in double precision and on whole recordings: each step is one pass
//! over all samples.

use crate::actors::{
    BAND, IN_RHYTHM, LATE, LEARNING, PATIENCE, PREMATURE, REFRACTORY, Report, SMOOTHING, section,
};
use crate::recording::RATE;

/// All beats, judged.
pub fn reports(samples: &[f32]) -> Vec<Report> {
    let signal: Vec<f64> = samples.iter().map(|&x| f64::from(x)).collect();
    let band = filtered(section(BAND.1, false), &filtered(section(BAND.0, true), &signal));
    let at = |i: usize, back: usize| if i >= back { band[i - back] } else { 0.0 };
    let slope = |i: usize| (2.0 * at(i, 0) + at(i, 1) - at(i, 3) - 2.0 * at(i, 4)) * RATE / 8.0 / 1000.0;
    let square: Vec<f64> = (0..band.len()).map(|i| slope(i) * slope(i)).collect();
    judged(&beats(&averaged(&averaged(&square))))
}

/// The difference equation of a section, written out.
fn filtered([b0, b1, b2, a1, a2]: [f64; 5], x: &[f64]) -> Vec<f64> {
    let mut y: Vec<f64> = Vec::with_capacity(x.len());
    for i in 0..x.len() {
        let back = |v: &[f64], n: usize| if i >= n { v[i - n] } else { 0.0 };
        let next = b0 * x[i] + b1 * back(x, 1) + b2 * back(x, 2) - a1 * back(&y, 1) - a2 * back(&y, 2);
        y.push(next);
    }
    y
}

fn averaged(x: &[f64]) -> Vec<f64> {
    let share = 1.0 - (-1.0 / (RATE * SMOOTHING)).exp();
    let mut level = 0.0;
    x.iter()
        .map(|x| {
            level += share * (x - level);
            level
        })
        .collect()
}

/// The samples by which beats are decided.
fn beats(energy: &[f64]) -> Vec<usize> {
    let learning = ((LEARNING * RATE) as usize).min(energy.len());
    let mut beat = energy[..learning].iter().copied().fold(0.0, f64::max);
    let mut noise = beat * 0.1;
    let (mut beats, mut last, mut rises) = (Vec::new(), -RATE as i64, false);
    for i in learning..energy.len() {
        let peak = energy[i - 1];
        if energy[i] > peak {
            rises = true;
            continue;
        }
        let free = i as i64 - last;
        if rises && energy[i] < peak {
            rises = false;
            if free > (REFRACTORY * RATE) as i64 {
                if peak > noise + 0.25 * (beat - noise) {
                    beat += (peak.min(3.0 * beat) - beat) / 8.0;
                    last = i as i64;
                    beats.push(i);
                } else {
                    noise += (peak - noise) / 8.0;
                }
            }
        }
        if free > (PATIENCE * RATE) as i64 {
            beat *= 0.999;
        }
    }
    beats
}

fn judged(beats: &[usize]) -> Vec<Report> {
    let (mut mean, mut reports) = (None::<f64>, Vec::new());
    let mut before = None;
    for &decided in beats {
        let sample = decided - 1;
        let interval = (sample - before.unwrap_or(0)) as u32;
        let length = f64::from(interval);
        let kind = match (before, mean) {
            (None, _) => IN_RHYTHM,
            (Some(_), None) => {
                mean = Some(length);
                IN_RHYTHM
            }
            (Some(_), Some(usual)) if length < 0.8 * usual => PREMATURE,
            (Some(_), Some(usual)) if length > 1.5 * usual => LATE,
            (Some(_), Some(usual)) => {
                mean = Some(usual + (length - usual) / 8.0);
                IN_RHYTHM
            }
        };
        before = Some(sample);
        reports.push(Report { sample: sample as u32, decided: decided as u32, interval, kind });
    }
    reports
}
