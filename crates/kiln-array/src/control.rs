//! Loops and choices, with derivatives.

use crate::array::arithmetic::common_shape;
use crate::array::stack_at;
use crate::dtype::{Kind, kind};
use crate::error::{Error, Site};
use crate::grad::{Parameters, arrays, custom_vjp};
use crate::node::{Array, common_device};
use kiln_ir::{Literal, Scalar};
use std::panic::Location;

/// A function applied to one part of arrays after the other, along their first axis, with something
/// carried from each to the next: what is carried in the end, and what the function gives for each
/// part, along a new first axis.
///
/// It is a loop that records the function once for each part, so that the plan grows with their
/// number; a plan that ran before is found again. Gradients, `jvp` and `vmap` go through it.
///
/// ```
/// use kiln_array::{Array, grad, scan};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1.0f32, 2.0, 3.0], &[3]);
/// // Interest of half of what is there, and a payment in each year.
/// let year = |sum: &Array, payment: &Array| {
///     let next = sum * 1.5 + payment;
///     (next.clone(), next)
/// };
/// let (last, all) = scan(year, Array::scalar(&device, 0.0f32), &x);
/// assert_eq!((last.item::<f32>()?, all.to_vec::<f32>()?), (8.25, vec![1.0, 3.5, 8.25]));
/// let slope = grad(|x| scan(year, Array::scalar(&device, 0.0f32), x).0, &x);
/// assert_eq!(slope.to_vec::<f32>()?, [2.25, 1.5, 1.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The results have an error if there are no arrays to go over, if one has no axes, if the first
/// axes differ, or if the function gives other numbers of arrays or other shapes for some parts
/// than for others.
#[track_caller]
pub fn scan<C: Parameters, X: Parameters, Y: Parameters>(
    mut f: impl FnMut(&C, &X) -> (C, Y),
    first: C,
    over: &X,
) -> (C, Y) {
    let site = Location::caller();
    let parts = match parts(over, site) {
        Ok(parts) => parts,
        Err(error) => {
            // The function says how many results there are, and need not use the arrays.
            let failed = || Array::failed(error.clone(), site);
            let (carried, each) = f(&first, &over.map(&mut |_| failed()));
            return (carried.map(&mut |_| failed()), each.map(&mut |_| failed()));
        }
    };
    if parts == 0 {
        // What the function gives for a part of zeros has the shapes.
        let zeros = over.map(&mut |x| of_shape(x, &x.shape()[1..], site));
        let (_, each) = f(&first, &zeros);
        let none = each.map(&mut |y| {
            let shape: Vec<usize> = [0].iter().chain(y.shape()).copied().collect();
            of_shape(y, &shape, site)
        });
        return (first, none);
    }
    let mut carried = first;
    let mut all: Vec<Y> = Vec::with_capacity(parts);
    for at in 0..parts {
        let (next, each) = f(&carried, &over.map(&mut |x| part(x, at, site)));
        carried = next;
        all.push(each);
    }
    let columns: Vec<Vec<Array>> = all.iter().map(arrays).collect();
    let mut number = 0;
    let stacked = all[0].map(&mut |_| {
        number += 1;
        joined(&columns, number - 1, site)
    });
    (carried, stacked)
}

/// One part of an array along its first axis.
fn part(x: &Array, at: usize, site: Site) -> Array {
    x.part(0, at, 1, 1, site).reshaped(&x.shape()[1..], site)
}

/// What a function gave for all parts as its result of a number.
fn joined(columns: &[Vec<Array>], number: usize, location: Site) -> Array {
    let refused = |problem: String| Array::failed(Error::Shape { op: "scan", problem, location }, location);
    let first = &columns[0];
    if let Some((at, other)) = columns.iter().enumerate().find(|(_, of)| of.len() != first.len()) {
        let (count, other) = (first.len(), other.len());
        return refused(format!(
            "the function gives {count} arrays for part 0 and {other} for part {at}: as many are expected \
             for each part"
        ));
    }
    let each: Vec<&Array> = columns.iter().map(|of| &of[number]).collect();
    if let Some(error) = each.iter().find_map(|array| array.error()) {
        return Array::failed(error, location);
    }
    let shape = each[0].shape();
    match each.iter().enumerate().find(|(_, array)| array.shape() != shape) {
        Some((at, other)) => refused(format!(
            "result {number}, counted from 0, has shape {shape:?} for part 0 and {:?} for part {at}: one shape \
             is expected for all parts",
            other.shape()
        )),
        None => stack_at(&each, 0, location),
    }
}

/// The extent of the first axis of all arrays.
fn parts<X: Parameters>(over: &X, location: Site) -> Result<usize, Error> {
    let refused = |problem: String| Error::Shape { op: "scan", problem, location };
    let all = arrays(over);
    if let Some(error) = all.iter().find_map(Array::error) {
        return Err(error);
    }
    let Some(first) = all.first() else { return Err(refused("there are no arrays to go over".into())) };
    let mut extent = None;
    for array in &all {
        let problem = match (array.shape().first(), extent) {
            (None, _) => {
                "a number has no parts: arrays with a first axis are expected, along which the function is \
                 applied; what is the same for all parts is captured"
                    .to_owned()
            }
            (Some(of), Some(extent)) if *of != extent => {
                format!("first axes of shapes {:?} and {:?} are not equal", first.shape(), array.shape())
            }
            (of, _) => {
                extent = of.copied();
                continue;
            }
        };
        return Err(refused(problem));
    }
    Ok(extent.unwrap_or_default())
}

/// Zeros of an array's element type.
fn of_shape(x: &Array, shape: &[usize], site: Site) -> Array {
    let zero = || Literal::zero(x.dtype());
    x.device().map_or_else(
        || x.clone(),
        |device| crate::array::create::constant(device, "scan", zero(), shape, site),
    )
}

/// What one function gives where a bool is true, and another one where it is not: one bool for all,
/// or some that broadcast to the results.
///
/// Both are computed, and the results chosen by [`where_`](Array::where_): so it is for choices on
/// the device, under [`vmap`](crate::vmap) above all. Where computing both costs too much, read the
/// bool by `item` and write an `if`. Other than with `where_` alone, what the function that is not
/// chosen makes NaN or infinite does not reach the gradients of `at`.
///
/// ```
/// use kiln_array::{Array, cond, grad, vmap};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[4.0f32, 0.0, -9.0], &[3]);
/// let root = |x: &Array| cond(&x.greater(0.0), x, |x| x.sqrt(), |x| x * 2.0);
/// assert_eq!(vmap(root, &x).to_vec::<f32>()?, [2.0, 0.0, -18.0]);
/// // The root's slope at zero is infinite.
/// assert_eq!(vmap(|x: &Array| grad(root, x), &x).to_vec::<f32>()?, [0.25, 2.0, 2.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The results have an error if the first array is not of bool, if the two functions give different
/// numbers of arrays, or arrays that do not broadcast.
#[track_caller]
pub fn cond<P: Parameters, Q: Parameters>(
    which: &Array,
    at: &P,
    yes: impl FnOnce(&P) -> Q,
    no: impl FnOnce(&P) -> Q,
) -> Q {
    let site = Location::caller();
    let which = &checked(which, site);
    let not = !which;
    let (if_true, if_false) = (yes(&gated(at, which)), no(&gated(at, &not)));
    let mut others = arrays(&if_false).into_iter();
    let count = (arrays(&if_true).len(), arrays(&if_false).len());
    if_true.map(&mut |a| {
        let refused =
            |problem: String| Array::failed(Error::Shape { op: "cond", problem, location: site }, site);
        match others.next() {
            _ if count.0 != count.1 => {
                refused(format!("one function gives {} arrays and the other {}", count.0, count.1))
            }
            Some(b) => {
                let all = [which, a, &b];
                let fits = common_device(&all, "cond", site).and_then(|_| common_shape("cond", &all, site));
                match fits {
                    Ok(_) => a.where_(which, &b),
                    Err(error) => Array::failed(error, site),
                }
            }
            None => a.clone(),
        }
    })
}

fn checked(which: &Array, location: Site) -> Array {
    if which.error().is_some() || which.dtype() == Scalar::Bool {
        return which.clone();
    }
    let hint = "what chooses is an array of bool, such as `x.greater(0)`";
    Array::failed(Error::Type { op: "cond", dtype: which.dtype(), hint, location }, location)
}

/// The parameters, whose gradients are passed on where a bool is true alone.
fn gated<P: Parameters>(at: &P, which: &Array) -> P {
    at.map(&mut |x| {
        let is_open = kind(x.dtype()) == Kind::Float && which.error().is_none() && x.error().is_none();
        if !is_open {
            return x.clone();
        }
        custom_vjp(
            &[x, which],
            |of| of[0].clone(),
            |of, _, g| {
                let passed = g.where_(&any_of(&of[1], g.shape()), 0.0);
                vec![passed, of[1].clone()]
            },
        )
    })
}

/// Whether a gradient of this shape may pass: where the bools broadcast to it each decides, else
/// it passes if one of them is true.
fn any_of(which: &Array, shape: &[usize]) -> Array {
    match crate::shape::broadcast(which.shape(), shape).as_deref() == Some(shape) {
        true => which.clone(),
        false => which.any(),
    }
}
