//! `layercast ilp emit`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use layercast_ilp::config::{Emitted, emit_c, emit_rust, parse, undeclared};
use layercast_sim::file;

use crate::failure::{Failure, Outcome};
use crate::output::{complain, count, create, print, unwritten};

/// A language.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Lang {
    /// The macros and functions of the paper.
    C,
    /// A pipeline for crate layercast-ilp.
    Rust,
}

/// `layercast ilp emit`.
#[derive(Debug, Args)]
#[command(after_help = "\
FILE.cfg names the manipulations from the application (POSITION=TOP) to the network (BOTTOM):

  [SUM]
  POSITION=TOP
  LENGTH=4
  MACRONAME_S=tcp_checksum
  MACRONAME_R=tcp_checksum
  RESULT=(u_int, xsum, 0)
  FINAL_S=(TCP_xsum_final(xsum))
  FINAL_R=(TCP_xsum_final(xsum))

docs/src/reference/ilp.md has all keywords and macros. With --lang c, FILE_ilp.h has the hooks
data_manipulations_send and _recv, FILE_ilp.c whole ADUs of words, ilp.h and ilp.c the library.
Each fault of the file is reported with its line, and nothing is written then. A function of INIT,
FINAL_S or FINAL_R that ilp.h does not declare is one of your program; with --lang c the command
warns of it.

Examples:
  layercast ilp emit if.cfg --lang c --out generated
  layercast ilp emit if.cfg --lang rust > if_ilp.rs")]
pub struct Emit {
    /// The configuration
    #[arg(value_name = "FILE.cfg")]
    pub file: PathBuf,
    /// Language
    #[arg(long, value_enum, ignore_case = true, default_value = "c")]
    pub lang: Lang,
    /// Folder for the files, which is made; without it they go to standard output
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Emit) -> Outcome {
    let path = &args.file;
    let text = file::read_text(path, file::MAX_DATA_FILE);
    let text = text.map_err(|error| Failure::file(path, "read", &error))?;
    let config = parse(&text).map_err(|faults| {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        match &lines[..] {
            [one] => Failure::of(path, one),
            more => {
                let what = format!("{} in this file", count(more.len(), "fault"));
                Failure::of(path, what).hint(more.join("\n  "))
            }
        }
    })?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    // The name becomes that of a type or of a file to include.
    let name: String = stem
        .chars()
        .map(|it| if it.is_ascii_alphanumeric() { it } else { '_' })
        .collect();
    let files = match args.lang {
        Lang::Rust => vec![emit_rust(&config, &name)],
        Lang::C => {
            let files = emit_c(&config, &name).map_err(|what| Failure::of(path, what))?;
            for what in undeclared(&config) {
                complain(&format!("{}: {what}", path.display()));
            }
            files
        }
    };
    match &args.out {
        Some(folder) => write(&files, folder),
        None if files.len() == 1 => print(&files[0].text),
        None => {
            let parts = files
                .iter()
                .map(|it| format!("/* {} */\n{}\n", it.name, it.text));
            print(&parts.collect::<String>())
        }
    }
}

fn write(files: &[Emitted], folder: &std::path::Path) -> Outcome {
    std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, "make", &error))?;
    for file in files {
        let path = folder.join(&file.name);
        let written = std::io::Write::write_all(&mut create(&path)?, file.text.as_bytes());
        written.map_err(|error| unwritten(&path, &error))?;
    }
    let names: Vec<&str> = files.iter().map(|it| it.name.as_str()).collect();
    let text = format!(
        "{} in {}: {}\n",
        count(files.len(), "file"),
        folder.display(),
        names.join(", ")
    );
    print(&text)
}
