//! `layercast fec`: where in a tree redundancy pays, and an edge that adds it.

use layercast_fec::model::{Effect, Plan, Ranked, TreeFile, plan};

use crate::failure::{Failure, Outcome};
use crate::output::{Table, complain, count, print, print_json};
use crate::{args, edge, scenario};

/// Runs the command.
pub fn run(args: &args::Fec) -> Outcome {
    match &args.command {
        args::FecCommand::Plan(args) => rank(args),
        args::FecCommand::Edge(args) => edge::run(args),
    }
}

fn rank(args: &args::FecPlan) -> Outcome {
    let Some(path) = &args.tree else {
        return print_json(&TreeFile::json_schema());
    };
    let text = scenario::read(path)?;
    let of_file =
        |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
    let file: TreeFile = toml::from_str(&text).map_err(|error| of_file(&error))?;
    let (tree, warnings) = file.tree().map_err(|error| of_file(&error))?;
    for warning in warnings {
        complain(&format!("warning: {warning}"));
    }
    let effect = match (args.factor, args.code) {
        (Some(by), _) => Effect::Factor(by),
        (None, Some((n, m))) => Effect::Code { n, m },
        (None, None) => Effect::Best { block: args.block },
    };
    let plan = plan(&tree, effect).map_err(|error| of_file(&error))?;
    match args.json {
        true => print_json(&plan),
        false => print(&describe(&plan)),
    }
}

/// A code as `N+M`, as on the command line.
pub fn code(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('+');
    let numbers = parts.and_then(|(n, m)| Some((n.trim().parse().ok()?, m.trim().parse().ok()?)));
    let code =
        numbers.filter(|&(n, m): &(usize, usize)| n > 0 && m > 0 && n.saturating_add(m) <= 255);
    code.ok_or_else(|| "N+M is wanted, at most 255 packets in all, such as 14+2".to_owned())
}

/// A factor by which losses are divided.
pub fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| *factor > 0.0);
    factor.ok_or_else(|| "expected a number above 0, such as 10".to_owned())
}

fn describe(plan: &Plan) -> String {
    let mut table = Table::new(&[
        "FEC on",
        "codes",
        "sent per packet",
        "gain",
        "net gain",
        "overhead",
        "parity links",
    ]);
    table.row([
        "nothing".to_owned(),
        String::new(),
        format!("{:.4}", plan.expected),
        "1.0000".to_owned(),
        "1.0000".to_owned(),
        "1.0000".to_owned(),
        "0".to_owned(),
    ]);
    for placement in &plan.placements {
        table.row(cells(placement));
    }
    let table = table.render();
    format!(
        "{}, {}\n\n{table}",
        count(plan.receivers, "receiver"),
        count(plan.links.round() as u64, "link")
    )
}

fn cells(placement: &Ranked) -> [String; 7] {
    let code = |code: &[usize; 2]| match code[1] {
        0 => "none".to_owned(),
        m => format!("{}+{m}", code[0]),
    };
    let codes: Vec<String> = placement.codes.iter().map(code).collect();
    [
        placement.parts.join(", "),
        codes.join(", "),
        format!("{:.4}", placement.expected),
        format!("{:.4}", placement.gain),
        format!("{:.4}", placement.net_gain),
        format!("{:.4}", placement.overhead),
        format!("{}", placement.parity_links),
    ]
}
