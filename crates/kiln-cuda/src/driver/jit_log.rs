//! The log of the driver's PTX compiler, parsed: what it refused, where it gave performance up, and
//! what each kernel uses.
//!
//! The text is that of ptxas. Its wording is no interface, so nothing here fails: a line that is
//! not understood is left out, and the text itself is in [`JitLog::text`].

use std::fmt;

/// What the compiler said about one compilation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JitLog {
    /// Errors, warnings, numbered advisories, and spills.
    pub diagnostics: Vec<Diagnostic>,
    /// What each kernel uses, in the order of the log.
    pub functions: Vec<FunctionUsage>,
    /// The log as written.
    pub text: String,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What it means to Kiln.
    pub kind: DiagnosticKind,
    /// ptxas's number for it: 7508 of `C7508`.
    pub code: Option<u16>,
    /// Line of the PTX text, from 1.
    pub line: Option<u32>,
    /// The kernel, where the message names one.
    pub function: Option<String>,
    /// The message without its prefix.
    pub message: String,
}

/// How bad a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For information; ptxas announces performance losses this way.
    Info,
    /// A warning.
    Warning,
    /// The PTX is wrong.
    Error,
    /// The compiler gave up.
    Fatal,
}

/// What a message means to Kiln.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiagnosticKind {
    /// `setmaxnreg` has no effect (C7504 to C7508): the entry lacks `.maxntid` or `.minnctapersm`,
    /// or the code was compiled as relocatable.
    SetMaxRegistersIgnored,
    /// Warpgroup matrix multiplications wait for each other because registers do not suffice
    /// (C7511).
    TooFewRegisters,
    /// Warpgroup matrix multiplications wait for each other (C7515 and its neighbors).
    WgmmaSerialized,
    /// Registers are kept in memory.
    Spill {
        /// Bytes written by each thread.
        stores: u32,
        /// Bytes read by each thread.
        loads: u32,
    },
    /// Anything else.
    Other,
}

/// What a kernel uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionUsage {
    /// The kernel.
    pub name: String,
    /// What it was compiled for, such as `sm_90a`.
    pub target: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Named barriers.
    pub barriers: u32,
    /// Static shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Stack of a thread, in bytes.
    pub stack_bytes: u32,
    /// Bytes of spilled registers a thread writes.
    pub spill_stores: u32,
    /// Bytes of spilled registers a thread reads.
    pub spill_loads: u32,
}

impl Diagnostic {
    /// Whether the compiled code is slower than its PTX should be.
    pub fn is_performance_loss(&self) -> bool {
        self.kind != DiagnosticKind::Other || self.message.starts_with("Potential Performance Loss")
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "PTX line {line}: ")?;
        }
        f.write_str(&self.message)?;
        self.code.map_or(Ok(()), |code| write!(f, " (C{code})"))
    }
}

impl JitLog {
    /// Parses the information log and the error log of one compilation.
    pub fn parse(info: &str, errors: &str) -> JitLog {
        let mut log = JitLog {
            text: [errors, info].map(str::trim_end).join("\n").trim().to_owned(),
            ..JitLog::default()
        };
        // Errors first: they are what a reader needs.
        errors.lines().chain(info.lines()).for_each(|line| log.line(line));
        let spills: Vec<_> = log.functions.iter().filter_map(FunctionUsage::spill).collect();
        log.diagnostics.extend(spills);
        log
    }

    /// Errors and fatal messages.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity >= Severity::Error)
    }

    /// Where the compiled code is slower than its PTX should be: lost register budgets, serialized
    /// matrix multiplications, spills.
    pub fn performance_losses(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.is_performance_loss())
    }

    fn line(&mut self, line: &str) {
        let Some((prefix, severity, message)) = split_severity(line) else {
            // A continuation of "Function properties".
            return self.usage(line);
        };
        if let Some(rest) = message.strip_prefix("Compiling entry function ") {
            let (name, target) = rest.split_once(" for ").unwrap_or((rest, ""));
            self.select(unquote(name)).target = unquote(target).to_owned();
        } else if let Some(name) = message.strip_prefix("Function properties for ") {
            self.select(unquote(name.trim_end_matches(':')));
        } else if message.starts_with("Used ") || message.starts_with("used ") {
            self.usage(message);
        } else {
            self.diagnostics.extend(diagnostic(prefix, severity, message));
        }
    }

    /// Moves the function of this name to the end, where the following lines find it.
    fn select(&mut self, name: &str) -> &mut FunctionUsage {
        let function = match self.functions.iter().position(|function| function.name == name) {
            Some(at) => self.functions.remove(at),
            None => FunctionUsage { name: name.to_owned(), ..FunctionUsage::default() },
        };
        self.functions.push(function);
        let last = self.functions.len() - 1;
        &mut self.functions[last]
    }

    /// Reads a list such as `Used 64 registers, used 1 barriers, 1024 bytes smem`.
    fn usage(&mut self, list: &str) {
        let Some(function) = self.functions.last_mut() else { return };
        for item in list.split(',').map(str::trim) {
            let item = item.strip_prefix("Used ").or(item.strip_prefix("used ")).unwrap_or(item);
            let Some((number, what)) = item.split_once(' ') else { continue };
            let Ok(number) = number.parse() else { continue };
            match what {
                "registers" => function.registers = number,
                "barriers" => function.barriers = number,
                "bytes smem" => function.shared_bytes = number,
                "bytes stack frame" => function.stack_bytes = number,
                "bytes spill stores" => function.spill_stores = number,
                "bytes spill loads" => function.spill_loads = number,
                _ => {}
            }
        }
    }
}

impl FunctionUsage {
    fn spill(&self) -> Option<Diagnostic> {
        let (stores, loads) = (self.spill_stores, self.spill_loads);
        (stores + loads > 0).then(|| Diagnostic {
            severity: Severity::Info,
            kind: DiagnosticKind::Spill { stores, loads },
            code: None,
            line: None,
            function: Some(self.name.clone()),
            message: format!(
                "`{}` spills registers: {stores} bytes written, {loads} bytes read by each thread",
                self.name
            ),
        })
    }
}

/// Splits `ptxas app, line 4; error   : message` before and after the word of severity.
fn split_severity(line: &str) -> Option<(&str, Severity, &str)> {
    const WORDS: [(&str, Severity); 4] = [
        ("info", Severity::Info),
        ("warning", Severity::Warning),
        ("error", Severity::Error),
        ("fatal", Severity::Fatal),
    ];
    line.match_indices(':').find_map(|(colon, _)| {
        let before = line[..colon].trim_end();
        let (word, severity) = WORDS.iter().find(|(word, _)| before.ends_with(word))?;
        let prefix = &before[..before.len() - word.len()];
        (prefix.is_empty() || prefix.ends_with(' ')).then(|| (prefix, *severity, line[colon + 1..].trim()))
    })
}

/// A message worth keeping: a warning or worse, or one that ptxas numbers.
fn diagnostic(prefix: &str, severity: Severity, message: &str) -> Option<Diagnostic> {
    let numbered = message.strip_prefix("(C").and_then(|rest| rest.split_once(')'));
    let (code, message) = match numbered {
        Some((code, rest)) => (code.parse().ok(), rest.trim()),
        None => (None, message),
    };
    (severity > Severity::Info || code.is_some()).then(|| Diagnostic {
        severity,
        kind: kind(code, message),
        code,
        line: number_after(prefix, " line ").or(number_after(message, " line ")),
        function: message
            .split_once("function '")
            .and_then(|(_, rest)| rest.split_once('\''))
            .map(|(name, _)| name.to_owned()),
        message: message.to_owned(),
    })
}

/// What a message means, by its words, which say more than its number and are as stable; by its
/// number where the words are new.
fn kind(code: Option<u16>, message: &str) -> DiagnosticKind {
    if message.contains("'setmaxnreg' ignored") {
        DiagnosticKind::SetMaxRegistersIgnored
    } else if message.contains("insufficient register resources") {
        DiagnosticKind::TooFewRegisters
    } else if message.contains("instructions are serialized") {
        DiagnosticKind::WgmmaSerialized
    } else {
        match code {
            Some(7504..=7508) => DiagnosticKind::SetMaxRegistersIgnored,
            Some(7511) => DiagnosticKind::TooFewRegisters,
            Some(7515) => DiagnosticKind::WgmmaSerialized,
            _ => DiagnosticKind::Other,
        }
    }
}

fn number_after(text: &str, marker: &str) -> Option<u32> {
    let rest = text.split_once(marker)?.1;
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

fn unquote(name: &str) -> &str {
    name.trim().trim_matches('\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spill' for 'sm_90a'
ptxas info    : Function properties for spill
    368 bytes stack frame, 364 bytes spill stores, 372 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 368 bytes cumulative stack size, 2048 bytes smem, 360 bytes cmem[0]
ptxas info    : Compiling entry function 'lean' for 'sm_90a'
ptxas info    : Function properties for lean
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compile time = 19.480 ms";

    #[test]
    fn usage_and_spills() {
        let log = JitLog::parse(USAGE, "");
        let spill = FunctionUsage {
            name: "spill".into(),
            target: "sm_90a".into(),
            registers: 64,
            barriers: 1,
            shared_bytes: 2048,
            stack_bytes: 368,
            spill_stores: 364,
            spill_loads: 372,
        };
        let lean = FunctionUsage {
            name: "lean".into(),
            target: "sm_90a".into(),
            registers: 8,
            ..Default::default()
        };
        assert_eq!(log.functions, [spill, lean]);
        assert_eq!(log.diagnostics.len(), 1, "{:?}", log.diagnostics);
        assert_eq!(log.diagnostics[0].kind, DiagnosticKind::Spill { stores: 364, loads: 372 });
        assert_eq!(log.diagnostics[0].function.as_deref(), Some("spill"));
        assert_eq!(log.performance_losses().count(), 1);
        assert_eq!(log.errors().count(), 0);
        assert_eq!(log.text, USAGE);
    }

    #[test]
    fn errors_have_lines() {
        let errors = "ptxas application ptx input, line 4; error   : Not a name of any known instruction: 'foo'\n\
            ptxas application ptx input, line 12; error   : Unknown symbol 'q'\n\
            ptxas fatal   : Ptx assembly aborted due to errors\n";
        let log = JitLog::parse("", errors);
        let seen: Vec<_> =
            log.errors().map(|error| (error.severity, error.line, error.message.as_str())).collect();
        assert_eq!(
            seen,
            [
                (Severity::Error, Some(4), "Not a name of any known instruction: 'foo'"),
                (Severity::Error, Some(12), "Unknown symbol 'q'"),
                (Severity::Fatal, None, "Ptx assembly aborted due to errors"),
            ]
        );
        assert_eq!(log.diagnostics[1].to_string(), "PTX line 12: Unknown symbol 'q'");
        assert_eq!(log.performance_losses().count(), 0);
    }

    #[test]
    fn performance_losses_are_typed() {
        let info = "\
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility across compilation units.
info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'gemm' in line 310
ptxas warning : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ill formed pipeline stage in the function 'gemm'
ptxas info    : (C7517) wgmma.wait_group is injected in around line 42 by compiler to allow use of registers defined by GMMA in function 'gemm'
ptxas info    : (C7599) Potential Performance Loss: something new";
        let log = JitLog::parse(info, "");
        use DiagnosticKind::*;
        let kinds: Vec<_> = log.diagnostics.iter().map(|d| (d.code, d.kind)).collect();
        assert_eq!(
            kinds,
            [
                (Some(7508), SetMaxRegistersIgnored),
                (Some(7504), SetMaxRegistersIgnored),
                (Some(7511), TooFewRegisters),
                (Some(7515), WgmmaSerialized),
                (Some(7517), Other),
                (Some(7599), Other),
            ]
        );
        assert_eq!(log.diagnostics[2].function.as_deref(), Some("gemm"));
        assert_eq!(log.diagnostics[2].line, Some(310));
        assert_eq!(log.diagnostics[3].severity, Severity::Warning);
        assert_eq!(log.diagnostics[4].line, Some(42));
        assert_eq!(
            log.performance_losses().filter_map(|d| d.code).collect::<Vec<_>>(),
            [7508, 7504, 7511, 7515, 7599]
        );
    }

    #[test]
    fn the_linker_reports_usage_too() {
        let info = "nvlink info    : 0 bytes gmem\n\
            nvlink info    : Function properties for 'k':\n\
            nvlink info    : used 10 registers, 0 stack, 256 bytes smem, 360 bytes cmem[0], 0 bytes lmem";
        let log = JitLog::parse(info, "");
        assert_eq!(log.functions.len(), 1);
        assert_eq!(
            (log.functions[0].name.as_str(), log.functions[0].registers, log.functions[0].shared_bytes),
            ("k", 10, 256)
        );
    }

    #[test]
    fn strange_text_is_kept_and_ignored() {
        for text in [
            "",
            ":",
            "::::",
            "error",
            "info:",
            "(C) x",
            "ptxas info : (C99999999) x",
            "ptxas info : (Cé",
            "Used é registers",
            "line x",
        ] {
            let log = JitLog::parse(text, text);
            assert!(log.functions.is_empty(), "{text}");
        }
        assert_eq!(JitLog::parse("plain words", "").text, "plain words");
        // A message may contain words and colons of its own.
        let log = JitLog::parse("", "fatal   : an error: in info : here");
        assert_eq!(log.diagnostics[0].severity, Severity::Fatal);
        assert_eq!(log.diagnostics[0].message, "an error: in info : here");
    }
}
