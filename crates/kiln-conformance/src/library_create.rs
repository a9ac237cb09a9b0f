//! Tensors that the library makes with contents to begin with.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, close, list, same};
use half::{bf16, f16};
use kiln_kernels::{Create, Fill};
use kiln_lang::{Float, Int, Num};
use kiln_reference::{Host, Sample};

/// Numbers of elements: none, one, a few, and more than a program takes.
const COUNTS: [usize; 5] = [0, 1, 2, 37, 20_011];

pub fn cases() -> Vec<Case> {
    cases!["create":
        full for i32 u32 i64 u64 f16 bf16 f32 f64;
        fill for i32 u32 i64 u64 f16 bf16 f32 f64;
        arange for i32 u32 i64 u64;
        linspace for f16 bf16 f32 f64;
        eye for i32 f16 f32 f64;
    ]
}

fn full<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    for count in COUNTS {
        let value = T::sample(&mut trial.rng);
        same("full", &trial.device.full([count], value)?.to_vec()?, &vec![value; count])?;
    }
    let value = T::small(3);
    same("full, of three axes", &trial.device.full([3, 5, 7], value)?.to_vec()?, &[value; 105])?;
    same("full, of none", &trial.device.full([], value)?.to_vec()?, &[value])
}

fn fill<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let (before, value) = (T::small(1), T::sample(&mut trial.rng));
    for count in COUNTS {
        let mut y = trial.device.full([count], before)?;
        y.fill(value)?;
        same("fill", &y.to_vec()?, &vec![value; count])?;
    }
    let y = trial.device.full([5, 4, 3], before)?;
    y.slice(0, 1..3)?.fill(value)?;
    let expected = list(0..60, |i| if (12..36).contains(&i) { value } else { before });
    same("fill, of a part without gaps", &y.to_vec()?, &expected)?;
    let y = trial.device.full([6, 7], before)?;
    y.slice(1, 2..6)?.step_by(0, 2)?.transpose().fill(value)?;
    let inside = |i: usize| (i / 7).is_multiple_of(2) && (2..6).contains(&(i % 7));
    let expected = list(0..42, |i| if inside(i) { value } else { before });
    same("fill, of every second row in some columns", &y.to_vec()?, &expected)?;
    y.slice(1, 3..3)?.fill(value)?;
    same("fill, of no columns", &y.to_vec()?, &expected)
}

fn arange<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    for count in COUNTS {
        let (start, step) = (T::sample(&mut trial.rng), T::sample(&mut trial.rng));
        let expected =
            list(0..count, |i| T::from_host(Host::Int(i as i128).mul(step.host()).add(start.host())));
        same("arange", &trial.device.arange(start, step, count)?.to_vec()?, &expected)?;
    }
    Ok(())
}

fn linspace<T: Sample + Float>(trial: &mut Trial<'_>) -> Verdict {
    for (count, [start, end]) in
        COUNTS.into_iter().flat_map(|n| [[-1.0, 3.0], [5.5, 0.25]].map(|ends| (n, ends)))
    {
        let step = (end - start) / (count.max(2) - 1) as f64;
        let expected = list(0..count, |i| Host::Float(start + i as f64 * step));
        let got = trial.device.linspace::<T>(start, end, count)?.to_vec()?;
        close("linspace", &got, &expected, 2.0, 8.0)?;
        // The ends are exact: all types have these numbers.
        let of = |number: f64| T::from_host(Host::Float(number));
        same("linspace, its first", &got[..count.min(1)], &vec![of(start); count.min(1)])?;
        if count > 1 {
            same("linspace, its last", &got[count - 1..], &[of(end)])?;
        }
    }
    Ok(())
}

fn eye<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    for n in [0, 1, 2, 67] {
        let expected = list(0..n * n, |i| T::small((i / n.max(1) == i % n.max(1)).into()));
        same("eye", &trial.device.eye::<T>(n)?.to_vec()?, &expected)?;
    }
    Ok(())
}
