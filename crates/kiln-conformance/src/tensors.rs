//! Tensors: contents that move when they are needed, views, other devices.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, ensure, holds, list, same};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::Sample;
use kiln_runtime::{Device, Error, Records, Residency, Tensor};

pub fn cases() -> Vec<Case> {
    cases!["tensors":
        round_trip for bool i32 u32 i64 u64 f16 bf16 f32 f64;
        zeros for bool i32 u64 f16 bf16 f32 f64;
        views for i32 f16 f64;
        copies_between_views for bool i32 u16 bf16 f64;
        host_access;
        between_devices;
        contents_are_borrowed_once;
        no_axes;
        structs;
    ]
}

fn round_trip<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    for shape in [[1, 1, 1], [3, 5, 7], [2, 0, 4], [1, 1, 1000]] {
        let (mut x, data) = trial.input::<T, 3>(shape)?;
        holds("as given", &x, &data)?;
        same("a copy", &x.copy()?.to_vec()?, &data)?;
        let other = trial.random::<T>(data.len());
        x.write(&other)?;
        holds("written again", &x, &other)?;
    }
    Ok(())
}

fn zeros<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    same("zeros", &trial.device.zeros::<T, 2>([7, 9])?.to_vec()?, &[T::from_bits(0); 63])
}

fn views<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<T, 2>([6, 10])?;
    let at = |i: usize, j: usize| data[i * 10 + j];
    let part = x.slice(0, 1..4)?.slice(1, 2..9)?;
    holds("a slice", &part, &list(0..21, |k| at(k / 7 + 1, k % 7 + 2)))?;
    let transposed = part.transpose();
    holds("its transpose", &transposed, &list(0..21, |k| at(k % 3 + 1, k / 3 + 2)))?;
    same("its copy", &transposed.copy()?.to_vec()?, &transposed.to_vec()?)?;
    same("reshaped", &x.reshape([4, 15])?.to_vec()?, &data)?;
    ensure(transposed.reshape([21]).is_err(), || "a view with gaps was reshaped".into())?;
    let mut part = x.slice(0, 2..3)?;
    let row = trial.random::<T>(10);
    part.write(&row)?;
    let expected: Vec<T> = list(0..60, |k| if k / 10 == 2 { row[k % 10] } else { data[k] });
    holds("the tensor behind a view that was written", &x, &expected)?;
    let mut gaps = x.slice(1, 3..5)?;
    let pairs = trial.random::<T>(12);
    gaps.write(&pairs)?;
    let inside = |k: usize| (3..5).contains(&(k % 10));
    let expected: Vec<T> =
        list(0..60, |k| if inside(k) { pairs[k / 10 * 2 + k % 10 - 3] } else { expected[k] });
    holds("the tensor behind a view with gaps", &x, &expected)
}

#[kernel(crate = kiln_runtime)]
fn add_one(x: &mut Tensor<i32, 1>) {
    let tile = x.tile(program_id(0) * 16, 16);
    tile.store(tile.load(0) + 1);
}

/// From which element of a tensor of shape `[a, b, c]` each one of a larger tensor comes, if it
/// does, and each one of the transpose.
fn places_of([_, b, c]: [usize; 3], wide: [usize; 3]) -> (Vec<Option<usize>>, Vec<usize>) {
    let from = |i: usize, j: usize, k: usize| (i * b + j) * c + k;
    let places = list(0..wide.iter().product(), |at| {
        let (i, j, k) = (at / wide[2] / wide[1], at / wide[2] % wide[1], at % wide[2]);
        let inside = i >= 1 && (1..=b).contains(&j) && k % 2 == 1;
        inside.then(|| from(i - 1, j - 1, k / 2))
    });
    let elements = (wide[0] - 1) * b * c;
    (places, list(0..elements, |at| from(at / b / c, at % b, at / b % c)))
}

/// Rectangles, every other element, and transposes, into such.
fn copies_between_views<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let copies = trial.device.stream()?;
    for shape in [[3, 5, 7], [2, 40, 67], [1, 1, 2100], [70, 1, 33], [2, 0, 3]] {
        let [a, b, c] = shape;
        let (x, data) = trial.input::<T, 3>(shape)?;
        // Into the middle of a larger one, of which the rest stays.
        let wide = [a + 1, b + 2, 2 * c + 1];
        let (y, before) = trial.input::<T, 3>(wide)?;
        let part = y.slice(0, 1..a + 1)?.slice(1, 1..b + 1)?.slice(2, 1..2 * c + 1)?;
        part.step_by(2, 2)?.copy_from(&x)?;
        let (places, transposed) = places_of(shape, wide);
        let expected: Vec<T> = list(0..before.len(), |at| places[at].map_or(before[at], |place| data[place]));
        holds("every other element of a part", &y, &expected)?;
        // Transposed, in a stream; and back, by a copy of its own.
        let mut z = trial.output::<T, 3>([a, c, b])?;
        z.copy_from_on(&x.permute([0, 2, 1])?, &copies)?;
        holds("a transpose", &z, &list(0..data.len(), |at| data[transposed[at]]))?;
        holds("and back", &z.permute([0, 2, 1])?.copy()?, &data)?;
        let mut wrong = trial.device.zeros::<T, 3>([a, b, c + 1])?;
        let refused = matches!(wrong.copy_from(&x), Err(Error::Shape { .. }));
        ensure(refused, || "another shape was copied".into())?;
    }
    Ok(())
}

fn host_access(trial: &mut Trial<'_>) -> Verdict {
    let mut x = trial.device.tensor(&[1, 2, 3, 4, 5], [5])?;
    for round in 0..3 {
        x.with_host_mut(|data| data[round] *= 10)?;
        add_one(&mut x).launch(trial.device)?;
    }
    let sum = x.with_host(|data| data.iter().sum::<i32>())?;
    holds("host and device by turns", &x, &[13, 32, 51, 7, 8])?;
    ensure(sum == 111, || format!("the host sees a sum of {sum}"))?;
    let mut fresh = trial.device.uninit::<i32, 1>([3])?;
    ensure(fresh.residency() == Residency::Uninitialized, || format!("{:?}", fresh.residency()))?;
    fresh.with_host_mut(|data| data.copy_from_slice(&[7, 8, 9]))?;
    add_one(&mut fresh).launch(trial.device)?;
    holds("filled on the host", &fresh, &[8, 9, 10])
}

fn between_devices(trial: &mut Trial<'_>) -> Verdict {
    let other = if trial.device.capabilities().is_interpreted() { "cpu" } else { "interp" };
    let other = Device::open(other)?;
    let (x, data) = trial.input::<f32, 2>([5, 9])?;
    let there = x.transpose().to_device(&other)?;
    let back = there.transpose().to_device(trial.device)?;
    holds("there and back", &back, &data)?;
    ensure(there.device() == &other && back.device() == trial.device, || {
        "a copy is on the wrong device".into()
    })
}

fn contents_are_borrowed_once(trial: &mut Trial<'_>) -> Verdict {
    let x = trial.device.tensor(&[1.0f32, 2.0], [2])?;
    let inner = x.with_host(|_| x.to_vec())?;
    ensure(matches!(inner, Err(Error::Borrowed { .. })), || {
        format!("reading inside the closure gave {inner:?}")
    })?;
    holds("afterwards", &x, &[1.0, 2.0])
}

fn no_axes(trial: &mut Trial<'_>) -> Verdict {
    let x: Tensor<f64, 0> = trial.device.tensor(&[2.5], [])?;
    holds("one number", &x, &[2.5])?;
    ensure(x.len() == 1 && !x.is_empty(), || format!("{} elements", x.len()))
}

#[derive(Clone, Copy, Debug, PartialEq, Record)]
#[kiln(crate = kiln_runtime)]
struct Particle {
    x: f32,
    is_fast: bool,
    charge: i8,
}

/// A step of each particle: it takes its left neighbor's charge, from shared memory, and turns
/// round at a wall. An array of the thread keeps the particle of before.
#[kernel(crate = kiln_runtime)]
fn moved(particles: &mut Records<Particle, 1>) {
    let (i, here) = (thread_index(), thread_id(0));
    let s = shared_records::<Particle, 1>([64]);
    let before = local_records::<Particle>(2);
    let mut p = particles.get_or(i, Particle { x: 0.5, is_fast: false, charge: -3 });
    before.set(here % 2, p);
    // SAFETY: each thread writes its own element, and the barrier comes before any is read.
    unsafe { s.put(here, p) };
    barrier();
    p.charge = s.get((here + block_dim(0) - 1) % block_dim(0)).charge;
    p.x += 0.5;
    if p.x > 1.0 {
        p = ParticleVal { x: before.get(here % 2).x - 1.0, is_fast: !p.is_fast, ..p };
    }
    particles.set_or_skip(i, p);
}

fn structs(trial: &mut Trial<'_>) -> Verdict {
    for n in [0usize, 63, 200] {
        let data: Vec<Particle> = list(0..n, |_| Particle {
            x: trial.rng.below(64) as f32 / 64.0,
            is_fast: trial.rng.below(2) == 1,
            charge: trial.rng.below(9) as i8 - 4,
        });
        let mut particles = trial.device.records(&data, [n])?;
        moved(&mut particles).grid([n.div_ceil(64)]).block([64]).launch(trial.device)?;
        let expected: Vec<Particle> = list(0..n, |i| {
            let Particle { x, is_fast, .. } = data[i];
            let charge = data.get(i / 64 * 64 + (i % 64 + 63) % 64).map_or(-3, |left| left.charge);
            match x + 0.5 > 1.0 {
                true => Particle { x: x - 1.0, is_fast: !is_fast, charge },
                false => Particle { x: x + 0.5, is_fast, charge },
            }
        });
        let got: Vec<Particle> = particles.to_vec()?;
        ensure(got == expected, || format!("{n} particles: {got:?} in the place of {expected:?}"))?;
        let charges = particles.field::<i8>("charge")?.to_vec()?;
        same("a field", &charges, &list(0..n, |i| expected[i].charge))?;
    }
    Ok(())
}
