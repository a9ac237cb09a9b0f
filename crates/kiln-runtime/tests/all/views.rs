//! Slices, transposes and reshapes against a model on the host.

use crate::probe::Probe;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, DiskCache, Error, Tensor};
use proptest::prelude::*;
use std::sync::LazyLock;

/// A view as the host thinks of it: for each of its elements, in row-major order, where it lies in
/// the whole.
#[derive(Clone, Debug)]
struct Model {
    shape: [usize; 3],
    places: Vec<usize>,
}

impl Model {
    fn place(&self, [i, j, k]: [usize; 3]) -> usize {
        self.places[(i * self.shape[1] + j) * self.shape[2] + k]
    }

    /// The view of a shape whose element at an index is this one's at `from(index)`.
    fn map(&self, shape: [usize; 3], from: impl Fn([usize; 3]) -> [usize; 3]) -> Model {
        let mut places = Vec::new();
        for i in 0..shape[0] {
            for j in 0..shape[1] {
                places.extend((0..shape[2]).map(|k| self.place(from([i, j, k]))));
            }
        }
        Model { shape, places }
    }
}

/// Numbers from which the next view is derived; what they mean depends on its shape.
#[derive(Debug, Clone)]
enum Change {
    Slice { axis: usize, start: usize, len: usize },
    StepBy { axis: usize, step: usize },
    Transpose,
    Reshape { order: usize },
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0..3usize, 0..100usize, 0..100usize).prop_map(|(axis, start, len)| Change::Slice { axis, start, len }),
        2 => (0..3usize, 1..9usize).prop_map(|(axis, step)| Change::StepBy { axis, step }),
        2 => Just(Change::Transpose),
        1 => (0..3usize).prop_map(|order| Change::Reshape { order }),
    ]
}

fn apply(change: &Change, t: &Tensor<i32, 3>, m: &Model) -> (Tensor<i32, 3>, Model) {
    let [a, b, c] = m.shape;
    match *change {
        Change::Slice { axis, start, len } => {
            let start = start % (m.shape[axis] + 1);
            let len = len % (m.shape[axis] - start + 1);
            let mut shape = m.shape;
            shape[axis] = len;
            let model = m.map(shape, |mut index| {
                index[axis] += start;
                index
            });
            (t.slice(axis, start..start + len).unwrap(), model)
        }
        Change::StepBy { axis, step } => {
            let mut shape = m.shape;
            shape[axis] = (0..shape[axis]).step_by(step).len();
            let model = m.map(shape, |mut index| {
                index[axis] *= step;
                index
            });
            (t.step_by(axis, step).unwrap(), model)
        }
        Change::Transpose => (t.transpose(), m.map([c, b, a], |[i, j, k]| [k, j, i])),
        Change::Reshape { order } => {
            let shape = [[b, c, a], [a * b, 1, c], [1, a * c, b]][order];
            match t.reshape(shape) {
                Ok(reshaped) => (reshaped, Model { shape, places: m.places.clone() }),
                Err(_) => (t.slice(0, 0..a).unwrap(), m.clone()),
            }
        }
    }
}

#[kernel(crate = kiln_runtime)]
fn increment_3d(x: &Tensor<i32, 3>, y: &mut Tensor<i32, 3>) {
    let at = (program_id(0) * 2, program_id(1) * 2, program_id(2) * 4);
    y.tile(at, (2, 2, 4)).store(x.tile(at, (2, 2, 4)).load(0) + 1);
}

/// The same for all tests and all cases: each kernel is compiled once.
fn devices() -> &'static [Device; 3] {
    static DEVICES: LazyLock<[Device; 3]> = LazyLock::new(|| {
        [
            Probe::device(false, DiskCache::none()).0,
            Device::open_apart("interp").unwrap(),
            Device::open("cpu").unwrap(),
        ]
    });
    &DEVICES
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn views_reach_the_elements_they_should(
        shape in prop::array::uniform3(1..7usize),
        changes in prop::collection::vec(change(), 0..6),
    ) {
        let n: usize = shape.iter().product();
        let values: Vec<i32> = (0..n as i32).collect();
        for device in devices() {
            let whole = device.tensor(&values, shape).unwrap();
            let (mut view, mut model) = (whole.slice(0, 0..shape[0]).unwrap(), Model { shape, places: (0..n).collect() });
            for change in &changes {
                (view, model) = apply(change, &view, &model);
            }
            prop_assert_eq!((view.shape(), view.len()), (model.shape, model.places.len()));
            let expected: Vec<i32> = model.places.iter().map(|&p| p as i32).collect();
            prop_assert_eq!(view.to_vec().unwrap(), expected.clone());
            prop_assert_eq!(view.copy().unwrap().to_vec().unwrap(), expected.clone());

            // A kernel reads through the view.
            let mut out = device.tensor(&vec![-1; view.len()], view.shape()).unwrap();
            increment_3d(&view, &mut out).launch(device).unwrap();
            prop_assert_eq!(out.to_vec().unwrap(), expected.iter().map(|v| v + 1).collect::<Vec<_>>());

            // Writing through the view changes its elements of the whole, and no others; by the
            // host, then by a kernel.
            let mut after = values.clone();
            let new: Vec<i32> = (0..view.len() as i32).map(|i| 1000 + i).collect();
            view.write(&new).unwrap();
            for (&place, &value) in model.places.iter().zip(&new) {
                after[place] = value;
            }
            prop_assert_eq!(whole.to_vec().unwrap(), after.clone());
            increment_3d(&out, &mut view).launch(device).unwrap();
            for &place in &model.places {
                after[place] = place as i32 + 2;
            }
            prop_assert_eq!(whole.to_vec().unwrap(), after);

            // Where the view has no gaps, the host can have it as a slice.
            if let Ok(seen) = view.with_host(<[i32]>::to_vec) {
                prop_assert_eq!(seen, view.to_vec().unwrap());
            }
        }
    }
}

#[test]
fn a_write_into_a_fresh_view_with_gaps() {
    for device in devices() {
        let whole: Tensor<i32, 2> = device.uninit([3, 4]).unwrap();
        whole.slice(1, 1..3).unwrap().write(&[1, 2, 3, 4, 5, 6]).unwrap();
        let seen = whole.slice(1, 1..3).unwrap().to_vec().unwrap();
        assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn reshapes_keep_the_offset() {
    for device in devices() {
        let x = device.tensor(&(0..24).collect::<Vec<i32>>(), [4, 6]).unwrap();
        let rows = x.slice(0, 1..3).unwrap().reshape([3, 4]).unwrap();
        assert_eq!(rows.to_vec().unwrap(), (6..18).collect::<Vec<_>>());
        assert_eq!(rows.transpose().slice(0, 2..3).unwrap().to_vec().unwrap(), [8, 12, 16]);
    }
}

#[test]
fn steps_that_are_none() {
    let device = Device::open_apart("interp").unwrap();
    let x = device.tensor(&[1, 2, 3], [3]).unwrap();
    assert_eq!(x.step_by(0, usize::MAX).unwrap().to_vec().unwrap(), [1]);
    assert_eq!(x.slice(0, 1..1).unwrap().step_by(0, 2).unwrap().to_vec().unwrap(), []);
    let error = x.step_by(0, 0).unwrap_err().to_string();
    assert!(error.starts_with("a step of 0 on axis 0 goes nowhere: steps are at least 1"), "{error}");
    assert!(matches!(x.step_by(1, 2), Err(Error::Range { .. })));
}
