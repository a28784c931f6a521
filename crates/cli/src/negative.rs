//! Negative numbers as the values of options. clap takes `-1s` in `--delay-max -1s` for an option of its own, and advises to
//! write it after `--`, where it is no value of `--delay-max`.

use std::ffi::OsString;

use clap::{Arg, Command};

/// `args` with `--option=-1s` for `--option -1s`: the option refuses the number and says what it expects.
pub fn joined(root: &Command, args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut command = root;
    let mut joined: Vec<OsString> = Vec::new();
    let mut args = args.into_iter();
    // The first one is the program.
    joined.extend(args.next());
    let mut waiting = false;
    for arg in args.by_ref() {
        if waiting && is_negative(&arg) {
            let option = joined
                .last_mut()
                .expect("the option that waits for its value");
            option.push("=");
            option.push(arg);
            waiting = false;
            continue;
        }
        // The value of an option, whatever it looks like, is neither a command nor another option.
        let is_value = waiting && !arg.to_string_lossy().starts_with('-');
        if arg == "--" {
            joined.push(arg);
            break;
        }
        if let Some(inner) = arg.to_str().filter(|_| !is_value) {
            command = command.find_subcommand(inner).unwrap_or(command);
        }
        waiting = !is_value && waits(command, &arg);
        joined.push(arg);
    }
    joined.extend(args);
    joined
}

/// Whether `arg` is an option of `command` whose value comes next.
fn waits(command: &Command, arg: &OsString) -> bool {
    let name = arg.to_str().unwrap_or_default();
    let is_called = |option: &&Arg| match (name.strip_prefix("--"), name.strip_prefix('-')) {
        (Some(long), _) => option.get_long() == Some(long),
        (None, Some(short)) => option
            .get_short()
            .is_some_and(|letter| short.chars().eq([letter])),
        (None, None) => false,
    };
    let option = command.get_arguments().find(is_called);
    option.is_some_and(|it| it.get_action().takes_values() && !it.is_require_equals_set())
}

/// Whether `arg` begins as a negative number.
fn is_negative(arg: &OsString) -> bool {
    let text = arg.to_string_lossy();
    let number = text.strip_prefix('-').unwrap_or_default();
    number
        .trim_start_matches('.')
        .starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;
    use crate::args::Cli;

    /// What `layercast` with `args` says.
    fn said(args: &[String]) -> (ErrorKind, String) {
        let args = args.iter().map(OsString::from);
        let args = joined(&Cli::command(), args);
        let error = Cli::command().try_get_matches_from(args);
        let error = error.expect_err("a value that is refused, or something missing");
        (error.kind(), error.to_string())
    }

    /// Calls `with` with each option that takes a value, and the command line before it.
    fn each_option(command: &Command, before: &[String], with: &mut dyn FnMut(&[String], &Arg)) {
        for inner in command.get_subcommands() {
            let before = [before, &[inner.get_name().to_owned()]].concat();
            each_option(inner, &before, with);
        }
        for option in command.get_arguments().filter(|it| !it.is_positional()) {
            if option.get_action().takes_values() && !option.is_require_equals_set() {
                with(before, option);
            }
        }
    }

    fn is_integer(option: &Arg) -> bool {
        let id = option.get_value_parser().type_id();
        [
            TypeId::of::<u8>(),
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
        ]
        .iter()
        .any(|integer| id == *integer)
    }

    #[test]
    fn a_negative_number_is_the_value_of_the_option_before_it() {
        let mut options = 0;
        let mut check = |before: &[String], option: &Arg| {
            let names = [
                option.get_long().map(|long| format!("--{long}")),
                option.get_short().map(|short| format!("-{short}")),
            ];
            for name in names.into_iter().flatten() {
                let args = [before, &[name, "-1s".to_owned()]].concat();
                let args = joined(&Cli::command(), args.iter().map(OsString::from));
                let error = Cli::command().try_get_matches_from(args);
                if let Err(error) = error {
                    assert_ne!(error.kind(), ErrorKind::UnknownArgument, "{error}");
                }
                options += 1;
            }
        };
        each_option(&Cli::command(), &["layercast".to_owned()], &mut check);
        assert!(options > 150, "{options}");
    }

    #[test]
    fn whole_numbers_say_what_is_expected() {
        let mut options = 0;
        let mut check = |before: &[String], option: &Arg| {
            let Some(long) = option.get_long().filter(|_| is_integer(option)) else {
                return;
            };
            for (value, problem) in [("x", "is not a whole number"), ("-1", "is negative")] {
                let args = [before, &[format!("--{long}"), value.to_owned()]].concat();
                let (kind, said) = said(&args);
                assert_eq!(kind, ErrorKind::ValueValidation, "{args:?}: {said}");
                let own = said.contains(problem) && said.contains("a whole number from");
                assert!(own || said.contains("expected"), "{args:?}: {said}");
            }
            options += 1;
        };
        each_option(&Cli::command(), &["layercast".to_owned()], &mut check);
        assert!(options > 30, "{options}");
    }

    #[test]
    fn times_and_whole_numbers_name_what_is_wrong_with_them() {
        for (args, says) in [
            (
                "serve clip.m1v --delay-max -1s",
                "is negative; expected a time",
            ),
            (
                "serve clip.m1v --rate -.5Mbit/s",
                "is negative; expected a rate",
            ),
            (
                "sim --seed x",
                "it is not a whole number; expected a whole number from 0 to",
            ),
            (
                "sim --threads 65",
                "it is out of range; expected a whole number from 1 to 64",
            ),
            (
                "path recv -n -3",
                "it is negative; expected a whole number from 1 to 256",
            ),
        ] {
            let args = format!("layercast {args}");
            let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
            let (kind, said) = said(&args);
            assert_eq!(kind, ErrorKind::ValueValidation, "{said}");
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn what_is_no_value_stays_as_it_is() {
        for args in [
            "layercast serve --json -1s",
            "layercast serve --name film -1s",
            "layercast serve -- --rate -1s",
            "layercast serve --delay-max=5s -1s",
            "layercast serve --delay-max --json",
            "layercast sim --schema -1s",
        ] {
            let args = || args.split(' ').map(OsString::from);
            let same: Vec<OsString> = args().collect();
            assert_eq!(joined(&Cli::command(), args()), same);
        }
    }
}
