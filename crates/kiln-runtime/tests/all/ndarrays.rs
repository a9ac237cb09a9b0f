//! Arrays of the crate `ndarray` become tensors and come back, whatever their order in memory.

use half::bf16;
use kiln_runtime::{Device, DynTensor, Tensor};
use ndarray::{Array, Array0, Array2, Array3, ArrayD, Axis, s};

#[test]
fn elements_keep_their_places() {
    let device = Device::open("interp").unwrap();
    let a = Array3::from_shape_fn((3, 4, 5), |(i, j, k)| (100 * i + 10 * j + k) as i32);
    let views = [
        a.view(),
        a.slice(s![1.., ..;2, ..;-1]),
        a.slice(s![..0, .., ..]),
        a.view().permuted_axes([2, 0, 1]),
        a.view().reversed_axes(),
    ];
    for view in views {
        let x = Tensor::from_ndarray(&device, &view).unwrap();
        assert_eq!(x.shape(), view.shape());
        assert_eq!(x.to_vec().unwrap(), view.iter().copied().collect::<Vec<i32>>());
        assert_eq!(x.to_ndarray().unwrap(), view);
        let dynamic = DynTensor::from_ndarray(&device, &view).unwrap();
        assert_eq!(dynamic.to_ndarray::<i32>().unwrap(), view.to_owned().into_dyn());
    }
    // A row repeated by a stride of zero.
    let row = Array::from_vec(vec![1.5f64, 2.5]);
    let repeated = row.broadcast((3, 2)).unwrap();
    assert_eq!(Tensor::from_ndarray(&device, &repeated).unwrap().to_ndarray().unwrap(), repeated);
}

#[test]
fn views_of_tensors_are_arrays_in_order() {
    let device = Device::open("cpu").unwrap();
    let a = Array2::from_shape_fn((4, 6), |(i, j)| bf16::from_f32((i * 6 + j) as f32));
    let x = Tensor::from_ndarray(&device, &a).unwrap();
    let part = x.slice(1, 2..5).unwrap().transpose();
    assert_eq!(part.to_ndarray().unwrap(), a.slice(s![.., 2..5]).reversed_axes());
    assert_eq!(x.select(0, 2).unwrap().to_ndarray().unwrap(), a.index_axis(Axis(0), 2));
    let number = Array0::from_elem((), true);
    assert_eq!(Tensor::from_ndarray(&device, &number).unwrap().to_ndarray().unwrap(), number);
}

#[test]
fn any_number_of_axes_and_none_but_the_own_type() {
    let device = Device::open("interp").unwrap();
    let deep = ArrayD::from_elem(vec![1, 2, 1, 1, 3, 1, 1, 1, 2], 4u8);
    assert_eq!(DynTensor::from_ndarray(&device, &deep).unwrap().to_ndarray::<u8>().unwrap(), deep);
    let none = Array2::<i64>::zeros((3, 0));
    assert_eq!(Tensor::from_ndarray(&device, &none).unwrap().to_ndarray().unwrap(), none);
    let x = DynTensor::from_ndarray(&device, &Array0::from_elem((), 1.0f32)).unwrap();
    let error = x.to_ndarray::<i32>().unwrap_err().to_string();
    assert!(error.ends_with("expected elements of i32, got a tensor of f32 and shape []"), "{error}");
}
