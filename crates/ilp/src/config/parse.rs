//! Reads a configuration file, and tells all that is wrong with it.

use std::collections::BTreeSet;

use super::names::{is_identifier, taken};
use super::{Block, Call, Config, ConfigError, KNOWN, Known, Parameter, nearest};
use crate::stage::MAX_UNIT;

/// Most blocks of a file.
const MAX_BLOCKS: usize = 64;

/// The keywords of a block.
const KEYWORDS: &[&str] = &[
    "POSITION",
    "NEXT",
    "MACRONAME_S",
    "MACRONAME_R",
    "LENGTH",
    "VARIABLE",
    "RESULT",
    "FINAL_S",
    "FINAL_R",
    "INIT",
];

/// A block as it is written.
#[derive(Default)]
struct Raw {
    name: String,
    line: usize,
    position: Option<String>,
    next: Option<(usize, String)>,
    send: Option<String>,
    receive: Option<String>,
    length: Option<(usize, String)>,
    parameters: Vec<Parameter>,
    final_send: Option<(usize, Vec<Call>)>,
    final_receive: Option<(usize, Vec<Call>)>,
    init: Option<String>,
}

struct Faults(Vec<ConfigError>);

impl Faults {
    fn tell(&mut self, line: usize, keyword: &str, problem: impl Into<String>) {
        self.0.push(ConfigError {
            line,
            keyword: keyword.to_owned(),
            problem: problem.into(),
        });
    }
}

/// Reads a configuration file.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn parse(text: &str) -> Result<Config, Vec<ConfigError>> {
    let mut faults = Faults(Vec::new());
    let raw = blocks(text, &mut faults);
    let order = order(&raw, &mut faults);
    let blocks: Vec<Block> = order
        .iter()
        .filter_map(|at| finish(&raw[*at], &mut faults))
        .collect();
    names_are_one_type(&blocks, &mut faults);
    let config = Config { blocks };
    let words = config.blocks.iter().try_fold(1_usize, |words, block| {
        Some(crate::lcm(words, block.words)).filter(|words| *words <= MAX_UNIT)
    });
    if words.is_none() {
        faults.tell(
            0,
            "LENGTH",
            "the unit of all blocks is above 256 octets: run the stages in strips",
        );
    }
    match faults.0.is_empty() {
        true => Ok(config),
        false => {
            faults.0.sort_by_key(|fault| fault.line);
            Err(faults.0)
        }
    }
}

/// The blocks as they are written.
fn blocks(text: &str, faults: &mut Faults) -> Vec<Raw> {
    let mut blocks: Vec<Raw> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            let name = name.trim();
            if !is_identifier(name) {
                faults.tell(number, line, "wanted is [NAME], an identifier");
            }
            if blocks.iter().any(|block| block.name == name) {
                faults.tell(number, name, "there is a block of this name already");
            }
            if blocks.len() == MAX_BLOCKS {
                faults.tell(number, name, "64 blocks are possible");
                return blocks;
            }
            blocks.push(Raw {
                name: name.to_owned(),
                line: number,
                ..Raw::default()
            });
            continue;
        }
        let Some((keyword, value)) = line.split_once('=') else {
            faults.tell(number, line, "wanted is [NAME] or KEYWORD=VALUE");
            continue;
        };
        let (keyword, value) = (keyword.trim(), value.trim());
        let Some(block) = blocks.last_mut() else {
            faults.tell(number, keyword, "it stands before the first [NAME]");
            continue;
        };
        let is_other = ["MACRO_NAME_S", "MACRO_NAME_R"].contains(&keyword);
        let keyword = match nearest(keyword, KEYWORDS.iter().copied()) {
            // What is meant is read, so that the line is one fault and not a missing keyword, too.
            Some(meant) if meant != keyword && !is_other => {
                faults.tell(number, keyword, format!("did you mean {meant}?"));
                meant
            }
            _ => keyword,
        };
        assign(block, number, keyword, value, faults);
    }
    blocks
}

fn assign(block: &mut Raw, line: usize, keyword: &str, value: &str, faults: &mut Faults) {
    let mut once = |place: &mut Option<String>| match place {
        Some(_) => faults.tell(line, keyword, "it is given twice in one block"),
        None => *place = Some(value.to_owned()),
    };
    match keyword {
        "POSITION" => once(&mut block.position),
        "MACRONAME_S" | "MACRO_NAME_S" => once(&mut block.send),
        "MACRONAME_R" | "MACRO_NAME_R" => once(&mut block.receive),
        "INIT" => match (is_identifier(value), taken(value)) {
            (true, None) => once(&mut block.init),
            (true, Some(by)) => faults.tell(line, keyword, by),
            (false, _) => faults.tell(line, keyword, "wanted is the name of a function"),
        },
        "NEXT" if block.next.is_some() => {
            faults.tell(line, keyword, "it is given twice in one block")
        }
        "NEXT" => block.next = Some((line, value.to_owned())),
        "LENGTH" if block.length.is_some() => {
            faults.tell(line, keyword, "it is given twice in one block")
        }
        "LENGTH" => block.length = Some((line, value.to_owned())),
        "VARIABLE" | "RESULT" => match parameter(value, keyword == "RESULT") {
            Some(parameter) => match taken(&parameter.name) {
                None => block.parameters.push(parameter),
                Some(by) => faults.tell(line, keyword, by),
            },
            None => faults.tell(
                line,
                keyword,
                "wanted is (TYPE, NAME) or (TYPE, NAME, VALUE) of a scalar or a pointer to one",
            ),
        },
        "FINAL_S" | "FINAL_R" => {
            let place = match keyword {
                "FINAL_S" => &mut block.final_send,
                _ => &mut block.final_receive,
            };
            match calls(value) {
                _ if place.is_some() => {
                    faults.tell(line, keyword, "it is given twice in one block")
                }
                Some(calls) => match calls.iter().find_map(|it| taken(&it.function)) {
                    None => *place = Some((line, calls)),
                    Some(by) => faults.tell(line, keyword, by),
                },
                None => faults.tell(line, keyword, "wanted is (FUNCTION(RESULT, ...), ...)"),
            }
        }
        _ => faults.tell(
            line,
            keyword,
            format!("wanted is one of {}", KEYWORDS.join(", ")),
        ),
    }
}

/// What is between the brackets around all.
fn inner(text: &str) -> Option<&str> {
    Some(text.trim().strip_prefix('(')?.strip_suffix(')')?.trim())
}

const SCALARS: &[&str] = &[
    "char", "u_char", "short", "u_short", "int", "u_int", "long", "u_long", "float", "double",
    "void",
];

fn parameter(value: &str, is_result: bool) -> Option<Parameter> {
    let parts: Vec<&str> = inner(value)?.split(',').map(str::trim).collect();
    let (kind, name, init) = match parts[..] {
        [kind, name] => (kind, name, None),
        [kind, name, init] => (kind, name, Some(init)),
        _ => return None,
    };
    let kind: String = kind.split_whitespace().collect();
    let scalar = kind.trim_end_matches('*');
    let stars = kind.len() - scalar.len();
    let is_type = SCALARS.contains(&scalar) && stars <= 1 && (scalar != "void" || stars == 1);
    let is_constant = |it: &str| {
        !it.is_empty()
            && it
                .chars()
                .all(|it| it.is_ascii_alphanumeric() || "_.+-~".contains(it))
    };
    let right = is_type && is_identifier(name) && init.is_none_or(is_constant);
    right.then(|| Parameter {
        kind,
        name: name.to_owned(),
        init: init.map(str::to_owned),
        is_result,
    })
}

fn calls(value: &str) -> Option<Vec<Call>> {
    let mut rest = inner(value)?;
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let (function, after) = rest.split_once('(')?;
        let (results, after) = after.split_once(')')?;
        let function = function.trim();
        let results: Vec<String> = results.split(',').map(|it| it.trim().to_owned()).collect();
        if !is_identifier(function) || !results.iter().all(|it| is_identifier(it)) {
            return None;
        }
        calls.push(Call {
            function: function.to_owned(),
            results,
        });
        let after = after.trim();
        rest = match after.is_empty() {
            true => after,
            false => after.strip_prefix(',')?.trim_start(),
        };
    }
    (!calls.is_empty()).then_some(calls)
}

/// The places of the blocks from the top to the bottom.
fn order(blocks: &[Raw], faults: &mut Faults) -> Vec<usize> {
    let is = |block: &Raw, place: &str| block.position.as_deref() == Some(place);
    // A file with one block has one of them for both.
    let alone = blocks.len() == 1;
    for place in ["TOP", "BOTTOM"] {
        let count = blocks.iter().filter(|block| is(block, place)).count();
        if count != 1 && !(alone && blocks[0].position.is_some()) {
            let problem = format!("{count} blocks are POSITION={place}, and one must be");
            // The last block that says so, or the one that the place is missing of most likely.
            let last = blocks.iter().rfind(|block| is(block, place));
            let likely = if place == "TOP" {
                blocks.first()
            } else {
                blocks.last()
            };
            let line = last.or(likely).map_or(0, |block| block.line);
            faults.tell(line, "POSITION", problem);
        }
    }
    for block in blocks {
        if let Some(other) = block
            .position
            .as_deref()
            .filter(|it| *it != "TOP" && *it != "BOTTOM")
        {
            let problem = format!("{other} of [{}]: wanted is TOP or BOTTOM", block.name);
            faults.tell(block.line, "POSITION", problem);
        }
        let lowest = is(block, "BOTTOM") || alone;
        match &block.next {
            None if !lowest => faults.tell(
                block.line,
                "NEXT",
                format!("[{}] needs the name of the block below it", block.name),
            ),
            Some((line, _)) if lowest => faults.tell(*line, "NEXT", "nothing is below the bottom"),
            Some((line, next)) if !blocks.iter().any(|it| it.name == *next) => {
                faults.tell(*line, "NEXT", format!("there is no block [{next}]"));
            }
            _ => {}
        }
    }
    if !faults.0.is_empty() {
        return (0..blocks.len()).collect();
    }
    let top = |it: &Raw| alone || is(it, "TOP");
    let mut at = blocks.iter().position(top);
    let mut order = Vec::new();
    while let Some(now) = at {
        if order.contains(&now) {
            let line = blocks[now].line;
            faults.tell(
                line,
                "NEXT",
                format!("the blocks go round in a circle at [{}]", blocks[now].name),
            );
            return order;
        }
        order.push(now);
        let next = blocks[now].next.as_ref();
        at = next.and_then(|(_, next)| blocks.iter().position(|it| it.name == *next));
    }
    for (at, block) in blocks.iter().enumerate() {
        if !order.contains(&at) {
            faults.tell(
                block.line,
                "NEXT",
                format!("no block leads to [{}]", block.name),
            );
        }
    }
    order
}

/// The block, if each of its keywords has a value that can be meant.
fn finish(raw: &Raw, faults: &mut Faults) -> Option<Block> {
    let before = faults.0.len();
    let words = length(raw, faults);
    let known = manipulation(raw, faults);
    if let (Some(known), Some(words)) = (known, words) {
        if known.words != words {
            let problem = format!("{} takes {} octets", known.macros[0], 4 * known.words);
            faults.tell(raw.line, "LENGTH", problem);
        }
        let types: Vec<&str> = raw.parameters.iter().map(|it| it.kind.as_str()).collect();
        if types != known.types {
            let problem = format!(
                "{} takes {}, and the block gives {}",
                known.macros[0],
                list(known.types),
                list(&types)
            );
            faults.tell(raw.line, "VARIABLE", problem);
        }
    }
    let results: BTreeSet<&str> = raw
        .parameters
        .iter()
        .filter(|it| it.is_result)
        .map(|it| it.name.as_str())
        .collect();
    let finals = [
        ("FINAL_S", &raw.final_send),
        ("FINAL_R", &raw.final_receive),
    ];
    for (keyword, place) in finals {
        for (line, call) in place
            .iter()
            .flat_map(|(line, calls)| calls.iter().map(move |it| (line, it)))
        {
            for result in call
                .results
                .iter()
                .filter(|it| !results.contains(it.as_str()))
            {
                faults.tell(
                    *line,
                    keyword,
                    format!("{result} is no RESULT of [{}]", raw.name),
                );
            }
        }
    }
    if faults.0.len() > before {
        return None;
    }
    let calls = |place: &Option<(usize, Vec<Call>)>| {
        place.as_ref().map(|it| it.1.clone()).unwrap_or_default()
    };
    Some(Block {
        name: raw.name.clone(),
        line: raw.line,
        send: raw.send.clone()?,
        receive: raw.receive.clone()?,
        words: words?,
        parameters: raw.parameters.clone(),
        final_send: calls(&raw.final_send),
        final_receive: calls(&raw.final_receive),
        init: raw.init.clone(),
        stage: known?,
    })
}

fn list(types: &[&str]) -> String {
    match types {
        [] => "no parameter".to_owned(),
        types => types.join(", "),
    }
}

fn length(raw: &Raw, faults: &mut Faults) -> Option<usize> {
    let Some((line, length)) = &raw.length else {
        faults.tell(raw.line, "LENGTH", format!("[{}] has none", raw.name));
        return None;
    };
    let octets = length.parse::<usize>().ok();
    let octets = octets.filter(|it| *it > 0 && it.is_multiple_of(4) && *it <= 4 * MAX_UNIT);
    if octets.is_none() {
        faults.tell(
            *line,
            "LENGTH",
            format!("{length}: wanted is a multiple of 4 octets up to 256"),
        );
    }
    octets.map(|it| it / 4)
}

fn manipulation(raw: &Raw, faults: &mut Faults) -> Option<&'static Known> {
    for (keyword, name) in [("MACRONAME_S", &raw.send), ("MACRONAME_R", &raw.receive)] {
        if name.is_none() {
            faults.tell(raw.line, keyword, format!("[{}] has none", raw.name));
        }
    }
    let (send, receive) = (raw.send.as_ref()?, raw.receive.as_ref()?);
    let Some(known) = KNOWN.iter().find(|it| it.macros[0] == send) else {
        let names: Vec<&str> = KNOWN.iter().map(|it| it.macros[0]).collect();
        let problem = format!("{send} is not in the library: {}", names.join(", "));
        faults.tell(raw.line, "MACRONAME_S", problem);
        return None;
    };
    if known.macros[1] != receive {
        let problem = format!(
            "{receive} does not undo {send}: wanted is {}",
            known.macros[1]
        );
        faults.tell(raw.line, "MACRONAME_R", problem);
        return None;
    }
    Some(known)
}

/// All parameters are members of one structure, so that blocks with one name share one member.
fn names_are_one_type(blocks: &[Block], faults: &mut Faults) {
    let all: Vec<(&Block, &Parameter)> = blocks
        .iter()
        .flat_map(|block| block.parameters.iter().map(move |it| (block, it)))
        .collect();
    for (at, (block, one)) in all.iter().enumerate() {
        let other = all[..at].iter().find(|(_, it)| it.name == one.name);
        if let Some((first, it)) = other
            && (it.kind != one.kind || it.is_result || one.is_result)
        {
            let problem = format!(
                "[{}] and [{}] have one of this name each",
                first.name, block.name
            );
            faults.tell(block.line, &one.name, problem);
        }
    }
}
