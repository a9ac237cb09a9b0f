//! Files that other programs wrote, files that are damaged, and round trips.

use half::{bf16, f16};
use kiln_files::{Error, Safetensors, read_npy, write_npy, write_safetensors};
use kiln_ir::Scalar;
use kiln_runtime::{Device, DynTensor};
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    /// A file with these bytes.
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).expect("the folder can be written");
        path
    }
}

fn device() -> Device {
    Device::open("interp").expect("the interpreter is there")
}

/// A file as NumPy writes it.
fn npy(descr: &str, fortran_order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{text:<117}\n").bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn arrays_of_numpy_are_read() {
    let (folder, device) = (Folder::new(), device());
    let read = |bytes: &[u8]| read_npy(&device, folder.file("x.npy", bytes)).expect("a good file");

    let x = read(&npy(
        "<f4",
        "False",
        "(2, 3)",
        &[1.0f32, 2.0, 3.0, 4.0, 5.0, -6.5].map(f32::to_le_bytes).concat(),
    ));
    assert_eq!((x.dtype(), x.shape()), (Scalar::F32, &[2, 3][..]));
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, -6.5]);

    // The same array in Fortran's order: its columns one after the other.
    let x = read(&npy("<i4", "True", "(2, 3)", &[1i32, 4, 2, 5, 3, 6].map(i32::to_le_bytes).concat()));
    assert_eq!((x.shape(), x.to_vec::<i32>().unwrap()), (&[2, 3][..], vec![1, 2, 3, 4, 5, 6]));

    let x = read(&npy(">u8", "False", "(2,)", &[u64::MAX - 1, 7].map(u64::to_be_bytes).concat()));
    assert_eq!(x.to_vec::<u64>().unwrap(), [u64::MAX - 1, 7]);

    let x = read(&npy("<f2", "False", "()", &f16::from_f32(1.5).to_le_bytes()));
    assert_eq!((x.rank(), x.to_vec::<f16>().unwrap()), (0, vec![f16::from_f32(1.5)]));

    let x = read(&npy("|b1", "False", "(3,)", &[0, 1, 255]));
    assert_eq!(x.to_vec::<bool>().unwrap(), [false, true, true]);

    let x = read(&npy("<f8", "False", "(4, 0)", &[]));
    assert_eq!((x.shape(), x.is_empty()), (&[4, 0][..], true));
}

#[test]
fn versions_2_and_3_have_longer_lengths() {
    let (folder, device) = (Folder::new(), device());
    let text = "{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }\n";
    for version in [2, 3] {
        let mut bytes = b"\x93NUMPY".to_vec();
        bytes.extend([version, 0]);
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.bytes());
        bytes.extend([1, 0xff]);
        let x = read_npy(&device, folder.file("x.npy", &bytes)).expect("a good file");
        assert_eq!(x.to_vec::<i8>().unwrap(), [1, -1]);
    }
}

#[test]
fn what_kiln_has_no_type_for_is_refused_by_name() {
    let (folder, device) = (Folder::new(), device());
    let path = folder.file("complex.npy", &npy("<c8", "False", "(1,)", &[0; 8]));
    let error = read_npy(&device, &path).unwrap_err();
    assert!(matches!(&error, Error::ElementType { elem, .. } if elem == "'<c8'"), "{error}");
    assert!(
        error.to_string().contains("complex.npy: elements of type '<c8' have no type in Kiln"),
        "{error}"
    );

    let x = device.tensor(&[bf16::ONE], [1]).unwrap();
    let error = write_npy(folder.0.path().join("x.npy"), &x).unwrap_err();
    assert!(error.to_string().ends_with(
        "elements of type bf16 have no type in NumPy; convert them to f32, or write a safetensors file"
    ));
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1, "nothing was left behind");
}

#[test]
fn damaged_arrays_are_refused() {
    let (folder, device) = (Folder::new(), device());
    let of = |bytes: &[u8]| match read_npy(&device, folder.file("x.npy", bytes)).unwrap_err() {
        Error::Format { problem, .. } => problem,
        other => panic!("{other}"),
    };
    let good = npy("<f4", "False", "(2,)", &[0; 8]);
    assert!(of(&good[..5]).contains("no .npy file"));
    assert!(of(&good[..100]).contains("ends in its header"));
    assert_eq!(of(&good[..134]), "it has 6 bytes of data, and shape [2] of f32 another number");
    assert_eq!(
        of(&[&good[..], &[1]].concat()),
        "it has 9 bytes of data, and shape [2] of f32 another number"
    );
    assert!(of(&npy("<f8", "False", "(4294967296, 4294967296)", &[])).contains("another number"));
    assert!(of(b"PK\x03\x04 an archive of arrays").contains("magic"));
}

#[test]
fn tensors_of_a_model_are_read_by_name() {
    // As another program might write it: in another order, with spaces.
    let header = br#"{"b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]}, "__metadata__":{"format":"pt"},
        "a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}, "odd":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[12,14]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend([1.0f32, -2.0].map(f32::to_le_bytes).concat());
    bytes.extend([bf16::from_f32(3.0), bf16::from_f32(0.5)].map(bf16::to_le_bytes).concat());
    bytes.extend([1, 0]);
    let (folder, device) = (Folder::new(), device());
    let file = Safetensors::open(folder.file("model.safetensors", &bytes)).expect("a good file");
    assert_eq!(file.names().collect::<Vec<_>>(), ["a", "b", "odd"]);
    assert_eq!(file.metadata().collect::<Vec<_>>(), [("format", "pt")]);
    assert_eq!((file.dtype("a").unwrap(), file.shape("a").unwrap()), (Scalar::F32, &[1, 2][..]));
    assert_eq!(file.tensor(&device, "a").unwrap().to_vec::<f32>().unwrap(), [1.0, -2.0]);
    let b = file.tensor(&device, "b").unwrap().to_vec::<bf16>().unwrap();
    assert_eq!(b, [bf16::from_f32(3.0), bf16::from_f32(0.5)]);
    let error = file.tensor(&device, "odd").unwrap_err();
    assert!(error.to_string().ends_with("elements of type F8_E8M0 of `odd` have no type in Kiln"), "{error}");
    let error = file.tensor(&device, "c").unwrap_err();
    assert!(error.to_string().ends_with("there is no tensor `c`; there are `a`, `b`, `odd`"), "{error}");
}

#[test]
fn damaged_models_are_refused() {
    let (folder, device) = (Folder::new(), device());
    let path = folder.0.path().join("model.safetensors");
    let x = device.tensor(&[1.0f64, 2.0, 3.0], [3]).unwrap();
    write_safetensors(&path, &[("x", x.as_dyn())], &[]).unwrap();
    let good = fs::read(&path).unwrap();
    for (bytes, expected) in [
        (good[..4].to_vec(), "it has 4 bytes"),
        ([&u64::MAX.to_le_bytes(), &good[8..]].concat(), "its header would have 18446744073709551615 bytes"),
        (good[..good.len() - 1].to_vec(), "it has 23 bytes of data, and its header says 24"),
        ([&good[..], &[0]].concat(), "it has 25 bytes of data, and its header says 24"),
        (good.iter().map(|&b| if b == b'3' { b'4' } else { b }).collect(), "its header: "),
    ] {
        let error = Safetensors::open(folder.file("damaged", &bytes)).unwrap_err();
        assert!(matches!(error, Error::Format { .. }) && error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn names_are_given_once() {
    let (folder, device) = (Folder::new(), device());
    let path = folder.file("model.safetensors", b"what was there");
    let x = device.tensor(&[1i32], [1]).unwrap();
    let x = x.as_dyn();
    let twice = write_safetensors(&path, &[("x", x), ("x", x)], &[]).unwrap_err();
    assert!(twice.to_string().ends_with("two tensors have the name `x`"), "{twice}");
    assert!(write_safetensors(&path, &[("__metadata__", x)], &[("a", "b")]).is_err());
    assert!(write_safetensors(&path, &[("__metadata__", x)], &[]).is_err());
    // A tensor that cannot be read leaves what was there.
    let unwritten: DynTensor = device.uninit::<f32, 1>([4]).unwrap().into_dyn();
    let error = write_safetensors(&path, &[("x", x), ("y", &unwritten)], &[]).unwrap_err();
    assert!(matches!(error, Error::Tensor { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"what was there");
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1, "nothing was left behind");
}

#[test]
fn every_type_comes_back() {
    let (folder, device) = (Folder::new(), device());
    let path = folder.0.path().join("all.safetensors");
    let tensors: Vec<(String, DynTensor)> = Scalar::ALL
        .into_iter()
        .map(|elem| {
            let bytes: Vec<u8> = (0..6 * elem.bytes()).map(|i| (i % 2) as u8).collect();
            (elem.to_string(), DynTensor::from_bytes(&device, elem, &[3, 2], &bytes).unwrap())
        })
        .collect();
    let named: Vec<(&str, &DynTensor)> =
        tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    write_safetensors(&path, &named, &[("made", "by a test")]).unwrap();
    let file = Safetensors::open(&path).unwrap();
    assert_eq!(file.names().count(), Scalar::ALL.len());
    for (name, tensor) in named {
        let again = file.tensor(&device, name).unwrap();
        assert_eq!((again.dtype(), again.shape()), (tensor.dtype(), tensor.shape()));
        assert_eq!(again.to_bytes().unwrap(), tensor.to_bytes().unwrap(), "{name}");
        let path = folder.0.path().join("one.npy");
        if write_npy(&path, tensor).is_ok() {
            let again = read_npy(&device, &path).unwrap();
            assert_eq!(
                (again.dtype(), again.to_bytes().unwrap()),
                (tensor.dtype(), tensor.to_bytes().unwrap())
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Views go through both formats as what they show.
    #[test]
    fn views_come_back(rows in 0usize..5, columns in 0usize..5, from in 0usize..5) {
        let (folder, device) = (Folder::new(), device());
        let data: Vec<i64> = (0..(rows * columns) as i64).collect();
        let x = device.tensor(&data, [rows, columns]).unwrap();
        let view = x.slice(1, from.min(columns)..columns).unwrap().transpose();
        let (npy, model) = (folder.0.path().join("x.npy"), folder.0.path().join("x.safetensors"));
        write_npy(&npy, &view).unwrap();
        write_safetensors(&model, &[("x", view.as_dyn())], &[]).unwrap();
        for again in [read_npy(&device, &npy).unwrap(), Safetensors::open(&model).unwrap().tensor(&device, "x").unwrap()] {
            prop_assert_eq!(again.shape(), view.shape());
            prop_assert_eq!(again.to_vec::<i64>().unwrap(), view.to_vec().unwrap());
        }
    }

    /// Bytes that nobody meant as a file.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), flip in 0usize..300) {
        let (folder, device) = (Folder::new(), device());
        let _ = read_npy(&device, folder.file("x", &bytes));
        let _ = Safetensors::open(folder.file("x", &bytes));
        let mut almost = npy("<f4", "False", "(2, 3)", &[0; 24]);
        if let Some(byte) = almost.get_mut(flip) {
            *byte ^= 1 << (flip % 8);
        }
        let _ = read_npy(&device, folder.file("x", &almost));
    }
}
