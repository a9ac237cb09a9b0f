//! The actors: filter, detector, judge.
//!
//! The method is that of Pan and Tompkins ("A Real-Time QRS Detection Algorithm", IEEE Transactions
//! on Biomedical Engineering, 1985), with recursive filters in place of their integer ones.

use crate::recording::RATE;
use kiln::prelude::*;
use kiln::ring::{Address, Message, RingCtx, State, ring_kernel};

/// One sample, in millivolts.
#[derive(Message, Clone, Copy)]
pub struct Sample {
    pub number: u32,
    pub value: f32,
}

/// How steep the electrocardiogram is about a sample.
#[derive(Message, Clone, Copy)]
pub struct Point {
    pub number: u32,
    pub energy: f32,
}

/// A beat was seen at this sample.
#[derive(Message, Clone, Copy)]
pub struct Beat {
    pub number: u32,
    /// The sample by which it was decided.
    pub decided: u32,
}

/// A beat and its rhythm.
#[derive(Message, Clone, Copy, Debug)]
pub struct Report {
    pub sample: u32,
    pub decided: u32,
    /// Samples since the beat before.
    pub interval: u32,
    pub kind: u32,
}

pub const IN_RHYTHM: u32 = 0;
pub const PREMATURE: u32 = 1;
pub const LATE: u32 = 2;

/// What is let through, in hertz.
pub const BAND: (f64, f64) = (5.0, 15.0);
/// The time over which steepness is averaged, in seconds.
pub const SMOOTHING: f64 = 0.035;
/// No two beats are closer, in seconds.
pub const REFRACTORY: f64 = 0.24;
/// Levels are learnt for so long before beats are looked for, in seconds.
pub const LEARNING: f64 = 2.0;
/// Without a beat for so long, in seconds, the level of beats is let sink.
pub const PATIENCE: f64 = 1.5;

/// A second-order section (Bristow-Johnson, "Cookbook formulae for audio equalizer biquad filter
/// coefficients"): b0, b1, b2, a1, a2.
pub fn section(frequency: f64, high: bool) -> [f64; 5] {
    let w = 2.0 * std::f64::consts::PI * frequency / RATE;
    let (alpha, cos) = (w.sin() * std::f64::consts::FRAC_1_SQRT_2, w.cos());
    let edge = if high { 1.0 + cos } else { 1.0 - cos };
    let middle = if high { -edge } else { edge };
    [edge / 2.0, middle, edge / 2.0, -2.0 * cos, 1.0 - alpha].map(|c| c / (1.0 + alpha))
}

#[derive(State, Clone, Copy)]
pub struct Filter {
    high: [f32; 2],
    low: [f32; 2],
    /// The last four filtered samples, the newest first.
    before: [f32; 4],
    energy: [f32; 2],
    next: Address<Point>,
}

impl Filter {
    pub fn new(next: Address<Point>) -> Filter {
        Filter { high: [0.0; 2], low: [0.0; 2], before: [0.0; 4], energy: [0.0; 2], next }
    }
}

/// Band-pass, derivative, square, average.
#[ring_kernel]
pub fn filter(ctx: &RingCtx, s: &mut Filter, m: Sample) {
    let y = biquad(section(BAND.0, true), &mut s.high, m.value);
    let y = biquad(section(BAND.1, false), &mut s.low, y);
    // Five points, in millivolts a millisecond.
    let [a, _, c, d] = s.before;
    let slope = (y * 2.0 + a - c - d * 2.0) * (RATE as f32 / 8.0 / 1000.0);
    s.before = [y, s.before[0], s.before[1], s.before[2]];
    let share = (1.0 - (-1.0 / (RATE * SMOOTHING)).exp()) as f32;
    s.energy[0] += (slope * slope - s.energy[0]) * share;
    s.energy[1] += (s.energy[0] - s.energy[1]) * share;
    ctx.send(&s.next, PointVal { number: m.number, energy: s.energy[1] });
}

/// One step of a section, in transposed direct form II.
#[device]
fn biquad(c: [f64; 5], s: &mut [Val<f32>; 2], x: Val<f32>) -> Val<f32> {
    let [b0, b1, b2, a1, a2] = c.map(|c| c as f32);
    let y = x * b0 + s[0];
    s[0] = x * b1 - y * a1 + s[1];
    s[1] = x * b2 - y * a2;
    y
}

#[derive(State, Clone, Copy)]
pub struct Detector {
    /// How high peaks of beats are, and others.
    beat: f32,
    noise: f32,
    before: f32,
    rises: bool,
    /// The last beat.
    last: i32,
    next: Address<Beat>,
}

impl Detector {
    pub fn new(next: Address<Beat>) -> Detector {
        Detector { beat: 0.0, noise: 0.0, before: 0.0, rises: false, last: -(RATE as i32), next }
    }
}

/// A peak above the threshold is a beat; levels follow the peaks that are seen.
#[ring_kernel]
pub fn detector(ctx: &RingCtx, s: &mut Detector, m: Point) {
    let (number, peak) = (m.number.cast::<i32>(), s.before);
    s.before = m.energy;
    if number < (LEARNING * RATE) as i32 {
        s.beat = s.beat.maximum(m.energy);
        s.noise = s.beat * 0.1;
        return;
    }
    if m.energy > peak {
        s.rises = true.into_val();
        return;
    }
    let free = number - s.last;
    if s.rises && m.energy < peak {
        s.rises = false.into_val();
        if free > (REFRACTORY * RATE) as i32 {
            if peak > s.noise + (s.beat - s.noise) * 0.25 {
                // One giant does not deafen it.
                s.beat += (peak.minimum(s.beat * 3.0) - s.beat) * 0.125;
                s.last = number;
                ctx.send(&s.next, BeatVal { number: m.number - 1, decided: m.number });
            } else {
                s.noise += (peak - s.noise) * 0.125;
            }
        }
    }
    if free > (PATIENCE * RATE) as i32 {
        s.beat *= 0.999;
    }
}

#[derive(State, Clone, Copy, Default)]
pub struct Judge {
    last: u32,
    /// The mean interval of beats in rhythm; 0 before the first.
    mean: f32,
}

/// Compares a beat's interval with the mean of those in rhythm.
#[ring_kernel]
pub fn judge(_ctx: &RingCtx, s: &mut Judge, m: Beat) -> Report {
    let interval = m.number - s.last;
    let length = interval.cast::<f32>();
    let mut kind = val(IN_RHYTHM);
    if s.last == 0 {
        // There is no interval before the first.
        s.mean = 0.0.into_val();
    } else if s.mean == 0.0 {
        s.mean = length;
    } else if length < s.mean * 0.8 {
        kind = val(PREMATURE);
    } else if length > s.mean * 1.5 {
        kind = val(LATE);
    } else {
        s.mean += (length - s.mean) * 0.125;
    }
    s.last = m.number;
    Report { sample: m.number, decided: m.decided, interval, kind }
}
