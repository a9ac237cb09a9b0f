//! A package as a file.

use crate::archive::{self, ArchiveWriter, Record};
use crate::digest;
use crate::error::{Error, Result};
use kiln_backend::bytes::{Reader, Writer};
use kiln_backend::{PackageTarget, Places};
use kiln_ir::Kernel;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::Path;

const KIND: &str = "package";

/// The digest of a kernel without its places: what programs are found by.
pub(super) type Key = [u8; 32];

/// A file of compiled kernels, made by `kiln package` or a [`PackageBuilder`].
/// [`Device::load_package`](crate::Device::load_package) loads it.
///
/// ```
/// use kiln_runtime::{Package, PackageBuilder};
/// let bytes = PackageBuilder::default().finish();
/// assert!(Package::from_bytes(bytes.clone())?.is_empty());
/// let error = Package::from_bytes(bytes[1..].to_vec()).unwrap_err().to_string();
/// assert!(error.contains("it is no Kiln package"), "{error}");
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
///
/// ```
/// use kiln_backend::Backend;
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Device, DiskCache, Package, PackageBuilder, Tensor};
///
/// #[kernel(crate = kiln_runtime)]
/// fn double(x: &mut Tensor<f32, 1>) {
///     let tile = x.tile(program_id(0) * 4, 4);
///     tile.store(tile.load(0.0) * 2.0);
/// }
///
/// let device = Device::with_backend(Box::new(kiln_cpu::CpuBackend::new()), DiskCache::none());
/// let kernel = double(&mut device.zeros([4])?).ir()?;
/// let target = device.backend().need_artifacts()?.package_target().expect("it takes packages");
/// let code = device.backend().compile(&kernel)?.artifact.expect("it is kept");
/// let mut builder = PackageBuilder::default();
/// builder.add(&kernel, &target, &code);
/// let package = Package::from_bytes(builder.finish())?;
/// assert_eq!((package.len(), package.targets()), (1, vec![&target]));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub struct Package {
    /// What errors call it.
    name: String,
    bytes: Cow<'static, [u8]>,
    programs: Vec<PackagedProgram>,
}

/// A compiled kernel in a package.
pub(super) struct PackagedProgram {
    pub(super) target: PackageTarget,
    pub(super) kernel: String,
    pub(super) key: Key,
    places: Range<usize>,
    code: Range<usize>,
}

impl Package {
    /// Reads a file.
    ///
    /// ```
    /// let error = kiln_runtime::Package::open("no/such/file").unwrap_err().to_string();
    /// assert!(error.contains("no/such/file"), "{error}");
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] where it cannot be read, [`Error::Package`] where it is no package, was
    /// written by another version of Kiln, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Package> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| Error::File {
            what: "cannot read the package",
            path: path.to_owned(),
            message: error.to_string(),
        })?;
        Package::named(path.display().to_string(), bytes.into())
    }

    /// A package of bytes, such as those of `include_bytes!`, which are not copied.
    ///
    /// # Errors
    /// [`Error::Package`] where they are none, were written by another version of Kiln, or are
    /// damaged.
    pub fn from_bytes(bytes: impl Into<Cow<'static, [u8]>>) -> Result<Package> {
        Package::named("of bytes".to_owned(), bytes.into())
    }

    fn named(name: String, bytes: Cow<'static, [u8]>) -> Result<Package> {
        let refuse = |reason| Error::Package { package: name.clone(), reason };
        let records = archive::read(KIND, &bytes).map_err(refuse)?;
        let programs = records.into_iter().map(|record| program(record, &bytes)).collect::<Option<_>>();
        let programs = programs.ok_or_else(|| refuse("a program in it is unreadable".to_owned()))?;
        Ok(Package { name, bytes, programs })
    }

    /// How many programs it has, for all targets together.
    pub fn len(&self) -> usize {
        self.programs.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// What its programs were made for, each once, in the order of the file.
    pub fn targets(&self) -> Vec<&PackageTarget> {
        let mut targets: Vec<&PackageTarget> = Vec::new();
        for program in &self.programs {
            if !targets.contains(&&program.target) {
                targets.push(&program.target);
            }
        }
        targets
    }

    /// The names of its kernels, each with the name of its target, in the order of the file.
    ///
    /// ```
    /// let package = kiln_runtime::Package::from_bytes(kiln_runtime::PackageBuilder::default().finish())?;
    /// for (kernel, target) in package.kernels() {
    ///     println!("{kernel} for {target}");
    /// }
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn kernels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.programs.iter().map(|program| (program.kernel.as_str(), program.target.name.as_str()))
    }

    /// What errors call it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn programs(&self) -> &[PackagedProgram] {
        &self.programs
    }

    /// The code of a program, and the places that it was recorded with.
    pub(super) fn code(&self, program: &PackagedProgram) -> (&[u8], &[u8]) {
        let part = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        (part(&program.code), part(&program.places))
    }
}

impl fmt::Debug for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, programs) = (&self.name, self.programs.len());
        f.debug_struct("Package").field("name", name).field("programs", &programs).finish_non_exhaustive()
    }
}

/// A record as a program.
fn program(record: Record, file: &[u8]) -> Option<PackagedProgram> {
    let [name, needs, maker, kernel] = <[String; 4]>::try_from(record.texts).ok()?;
    let mut input = Reader::new(file.get(record.bytes.clone())?);
    let key = *input.take(32).ok()?.first_chunk()?;
    let places = input.bytes().ok()?.len();
    let code = input.bytes().ok()?.len();
    let begin = record.bytes.start + 32 + 4;
    let target = PackageTarget { name, needs, maker };
    let (places, code) = (begin..begin + places, begin + places + 4..begin + places + 4 + code);
    input.is_empty().then_some(PackagedProgram { target, kernel, key, places, code })
}

/// Makes a package.
///
/// ```
/// use kiln_backend::Backend;
/// use kiln_runtime::{Package, PackageBuilder};
///
/// let kernel = kiln_ir::parse("kernel @nothing() tile {\n}\n").expect("it is a kernel");
/// let cpu: &dyn Backend = &kiln_cpu::CpuBackend::new();
/// let target = cpu.need_artifacts()?.package_target().expect("it takes packages");
/// let code = cpu.compile(&kernel)?.artifact.expect("it is kept");
///
/// let mut builder = PackageBuilder::default();
/// builder.add(&kernel, &target, &code);
/// let package = Package::from_bytes(builder.finish())?;
/// assert_eq!(package.kernels().collect::<Vec<_>>(), [("nothing", "cpu")]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct PackageBuilder {
    programs: Vec<(Vec<String>, Vec<u8>)>,
}

impl PackageBuilder {
    /// Adds what a backend has compiled of a kernel for a target.
    pub fn add(&mut self, kernel: &Kernel, target: &PackageTarget, code: &[u8]) {
        let PackageTarget { name, needs, maker } = target;
        let texts = [name, needs, maker, &kernel.name].map(String::clone);
        let mut bytes = Writer(digest::of_kernel(kernel).to_vec());
        bytes.bytes(&Places::record(kernel));
        bytes.bytes(code);
        self.programs.push((texts.to_vec(), bytes.0));
    }

    /// The bytes of the package.
    pub fn finish(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let write = |file: &mut Vec<u8>| {
            let mut writer = ArchiveWriter::new(file, KIND)?;
            for (texts, bytes) in &self.programs {
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                writer.record(&texts, bytes)?;
            }
            writer.finish()
        };
        // Writing to memory does not fail.
        let _ = write(&mut file);
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sealed(texts: &[&str], bytes: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = ArchiveWriter::new(&mut file, KIND).unwrap();
        writer.record(texts, bytes).unwrap();
        writer.finish().unwrap();
        file
    }

    fn whole() -> Vec<u8> {
        let kernel = kiln_ir::parse("kernel @k() tile {\n  %0 = const 1 : i32\n}\n").unwrap();
        let mut bytes = Writer(digest::of_kernel(&kernel).to_vec());
        bytes.bytes(&Places::record(&kernel));
        bytes.bytes(b"code");
        bytes.0
    }

    const TEXTS: [&str; 4] = ["cpu", "needs", "maker", "k"];

    #[test]
    fn code_and_places_are_where_the_file_says() {
        let package = Package::from_bytes(sealed(&TEXTS, &whole())).unwrap();
        let [program] = package.programs() else { panic!("one program") };
        let kernel = kiln_ir::parse("kernel @k() tile {\n  %0 = const 1 : i32\n}\n").unwrap();
        let (code, places) = package.code(program);
        assert_eq!((code, places), (&b"code"[..], &Places::record(&kernel)[..]));
        assert_eq!(program.key, digest::of_kernel(&kernel));
    }

    proptest! {
        /// A file with a right digest, of whatever made it.
        #[test]
        fn any_record_with_a_right_digest_does_not_panic(
            texts in prop::collection::vec("[a-z]{0,3}", 0..7),
            at in any::<prop::sample::Index>(),
            with in prop::collection::vec(any::<u8>(), 0..9),
            cut in any::<bool>(),
        ) {
            let mut bytes = whole();
            let start = at.index(bytes.len());
            let end = if cut { bytes.len() } else { (start + with.len()).min(bytes.len()) };
            bytes.splice(start..end, with);
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            for texts in [&texts[..], &TEXTS] {
                if let Ok(package) = Package::from_bytes(sealed(texts, &bytes)) {
                    for program in package.programs() {
                        let _ = package.code(program);
                    }
                }
            }
        }
    }
}
