//! Places in the user's source.

use std::panic::Location;

/// A place in the user's source.
pub(crate) type Site = &'static Location<'static>;

/// A line of the source, as a kernel's function records its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceLocation {
    pub file: &'static str,
    pub line: u32,
    pub column: u32,
}

impl From<Site> for SourceLocation {
    fn from(site: Site) -> SourceLocation {
        SourceLocation { file: site.file(), line: site.line(), column: site.column() }
    }
}
