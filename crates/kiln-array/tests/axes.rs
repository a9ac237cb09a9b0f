//! Arrays of many axes: whatever the axis, an operation along it is the one along the last axis,
//! moved there and back.

use kiln_array::Array;
use kiln_runtime::Device;

/// An operation along an axis.
type Along = dyn Fn(&Array, isize) -> Array;

fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 37 + 11) % 101) as f32 / 25.0 - 2.0).collect()
}

fn close(what: &str, a: &Array, b: &Array) {
    assert_eq!(a.shape(), b.shape(), "{what}: {:?} {:?}", a.error(), b.error());
    let pairs = a.to_vec::<f32>().unwrap().into_iter().zip(b.to_vec::<f32>().unwrap());
    for (x, y) in pairs {
        assert!((x - y).abs() <= 1e-4 * y.abs().max(1.0), "{what}: {x}, expected {y}");
    }
}

/// The operation along the last axis of what is computed and in memory.
fn moved(x: &Array, axis: isize, f: &Along) -> Array {
    let last = x.swap_axes(axis, -1) * 1.0;
    last.eval().unwrap();
    let y = f(&last, -1);
    y.eval().unwrap();
    y.swap_axes(axis, -1)
}

#[test]
fn every_axis_is_like_the_last_one() {
    let device = Device::open("cpu").unwrap();
    let n = numbers(720);
    let a = Array::new(&device, &n, &[2, 3, 4, 5, 6]);
    let b = Array::new(&device, &n[..15], &[1, 3, 1, 5, 1]);
    let order = [4, 2, 0, 1, 3];
    let all: [(&str, &Along); 4] = [
        ("softmax", &|x, axis| x.softmax(axis)),
        ("cumsum", &|x, axis| x.cumsum(axis)),
        ("max", &|x, axis| x.max_keep(&[axis])),
        ("var", &|x, axis| x.var_keep(&[axis])),
    ];
    for axis in 0..5 {
        for (name, f) in all {
            let x = &a + &b;
            close(name, &f(&x, axis), &moved(&x, axis, f));
            // Nothing lies in order.
            let x = a.permute(&order) * 2.0 - b.permute(&order);
            close(name, &f(&x, axis).flip(&[0, 3]), &moved(&x, axis, f).flip(&[0, 3]));
        }
    }
}

#[test]
fn more_axes_than_a_view_has() {
    let device = Device::open("cpu").unwrap();
    let n = numbers(720);
    let x = Array::new(&device, &n, &[2, 3, 2, 2, 5, 2, 3]);
    let reversed = x.transpose();
    let back = (&reversed + 1.0).transpose().flatten();
    assert_eq!(back.to_vec::<f32>().unwrap(), n.iter().map(|x| x + 1.0).collect::<Vec<_>>());
    close("softmax", &reversed.softmax(3), &moved(&reversed, 3, &|x, axis| x.softmax(axis)));
    let means = reversed.mean_axes(&[1, 3, 5]);
    let apart = reversed.permute(&[0, 2, 4, 6, 1, 3, 5]) * 1.0;
    apart.eval().unwrap();
    close("mean", &means, &apart.reshape(&[3, 5, 2, 2, -1]).mean_axes(&[-1]));
}

/// What two axes of a result read an array by is not one axis.
#[test]
fn differences_of_all_pairs_read_an_array_twice() {
    let device = Device::open("cpu").unwrap();
    // So many operations that the numbers are computed once, for both.
    let points = |n: usize| {
        let x = Array::new(&device, &numbers(3 * n), &[n, 3]);
        (0..14).fold(x, |x, i| (x + f64::from(i)) * 0.5)
    };
    for (n, part) in [(7, 7), (7, 4), (5, 1), (1, 1), (40, 13)] {
        let x = points(n);
        let pairs = x.unsqueeze(1) - x.slice(0, 0..part).unsqueeze(0);
        let distances = pairs.square().sum_axes(&[2]);
        let at = points(n).to_vec::<f32>().unwrap();
        let expected: Vec<f32> = (0..n * part)
            .map(|at_| {
                let (i, j) = (at_ / part, at_ % part);
                let squares = (0..3).map(|k| f64::from(at[3 * i + k]) - f64::from(at[3 * j + k]));
                squares.map(|x| x * x).sum::<f64>() as f32
            })
            .collect();
        let expected = Array::new(&device, &expected, &[n, part]);
        close(&format!("{n} points and {part}"), &distances, &expected);
    }
}

/// Rows that a product or a sort reads through a view which another kernel needs as a copy.
#[test]
fn views_that_are_stored_late() {
    let device = Device::open("cpu").unwrap();
    let x = Array::new(&device, &numbers(12), &[2, 2, 3]);
    let (a, b) = (x.select(0, 0), x.select(0, 1));
    let sorted = kiln_array::stack(&[&a.sort(1), &b.sort(1)], 0);
    close("sort", &sorted, &x.sort(2));
    let squares = kiln_array::stack(&[&(a.transpose().matmul(&a)), &b.transpose().matmul(&b)], 0);
    close("squares", &squares, &x.swap_axes(1, 2).matmul(&x));
    close("sum", &(a.sort(1) + b.sort(1)), &sorted.sum_axes(&[0]));
}
