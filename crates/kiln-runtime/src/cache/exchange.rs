//! The disk cache as one file: `kiln cache export` and `import`.

use super::disk::{CHOICE, DiskCache, PROGRAM};
use crate::archive::{self, ArchiveWriter};
use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

const KIND: &str = "cache";

/// How many programs and choices were exported or imported.
///
/// ```
/// use kiln_runtime::DiskCache;
///
/// let folder = std::env::temp_dir().join(format!("kiln-doc-export-{}", std::process::id()));
/// let [here, there] = ["here", "there"].map(|name| DiskCache::at(folder.join(name)));
/// let key = DiskCache::key(&[b"kernel text", b"device"]);
/// here.store(&key, b"machine code");
/// assert_eq!(here.export(&folder.join("cache.kiln"))?.programs, 1);
/// there.import(&folder.join("cache.kiln"))?;
/// assert_eq!(there.load(&key).as_deref(), Some(&b"machine code"[..]));
/// # std::fs::remove_dir_all(folder).ok();
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// Programs.
    pub programs: usize,
    /// Choices that were measured.
    pub choices: usize,
}

impl Exchanged {
    fn count(&mut self, kind: &str) {
        match kind {
            PROGRAM => self.programs += 1,
            _ => self.choices += 1,
        }
    }
}

impl DiskCache {
    /// Writes all that is kept into one file, for [`import`](Self::import) on another machine.
    /// Damaged entries are left out.
    ///
    /// # Errors
    /// [`Error::File`] where the file cannot be written.
    pub fn export(&self, path: &Path) -> Result<Exchanged> {
        let aside = path.with_added_extension(format!("tmp-{}", std::process::id()));
        let written = self.write_all(&aside).and_then(|done| fs::rename(&aside, path).map(|()| done));
        written.map_err(|error| {
            let _ = fs::remove_file(&aside);
            Error::File { what: "cannot export to", path: path.to_owned(), message: error.to_string() }
        })
    }

    fn write_all(&self, path: &Path) -> io::Result<Exchanged> {
        let mut out = BufWriter::new(File::create(path)?);
        let mut writer = ArchiveWriter::new(&mut out, KIND)?;
        let mut done = Exchanged::default();
        for kind in [PROGRAM, CHOICE] {
            for key in self.keys(kind) {
                if let Some(Ok(bytes)) = self.entry(&key, kind).map(|entry| entry.read()) {
                    writer.record(&[kind, &key], &bytes)?;
                    done.count(kind);
                }
            }
        }
        writer.finish()?;
        Ok(done)
    }

    /// Keeps what a file of [`export`](Self::export) has, in place of what is there under the same
    /// keys. Nothing is kept of a file that is damaged, or that has an entry which is none of a
    /// cache.
    ///
    /// What is imported is run: import files of people whose programs you run.
    ///
    /// # Errors
    /// [`Error::File`] where the file cannot be read, is none of a cache, is damaged, or has a
    /// foreign entry, which is named, or where there is no cache.
    pub fn import(&self, path: &Path) -> Result<Exchanged> {
        let refuse = |message: String| Error::File { what: "cannot import", path: path.to_owned(), message };
        if self.folder().is_none() {
            return Err(refuse("there is no cache: set KILN_CACHE_DIR or HOME".to_owned()));
        }
        let file = fs::read(path).map_err(|error| refuse(error.to_string()))?;
        let records = archive::read(KIND, &file).map_err(refuse)?;
        let entries = records.iter().map(|record| match &record.texts[..] {
            [kind, key] => {
                let kind = [PROGRAM, CHOICE].into_iter().find(|known| known == kind);
                let is_key = key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
                let entry = kind.filter(|_| is_key).zip(file.get(record.bytes.clone()));
                entry
                    .map(|(kind, bytes)| (kind, key.as_str(), bytes))
                    .ok_or(format!("{key}.{:?}", record.texts[0]))
            }
            texts => Err(texts.join(" ")),
        });
        let entries = entries.collect::<std::result::Result<Vec<_>, _>>();
        let entries = entries.map_err(|name| refuse(format!("`{name}` is no entry of a cache")))?;
        let mut done = Exchanged::default();
        for (kind, key, bytes) in entries {
            self.store_as(key, kind, bytes);
            done.count(kind);
        }
        Ok(done)
    }
}
