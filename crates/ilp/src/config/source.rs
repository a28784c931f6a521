//! The source of a pipeline. The build script uses it, too: nothing but `std` here.

/// The source of a pipeline of stages of these types, from the top to the bottom. No type may have parameters: arrays of
/// the length of a unit need it known.
#[must_use]
pub fn pipeline(visibility: &str, name: &str, types: &[String]) -> String {
    const ILP: &str = "::layercast_ilp";
    let numbered = |text: &dyn Fn(usize, &str) -> String, between: &str| {
        let parts: Vec<String> = types
            .iter()
            .enumerate()
            .map(|(at, it)| text(at, it))
            .collect();
        parts.join(between)
    };
    let fields = numbered(&|at, it| format!("    stage_{at}: {it},"), "\n");
    let words = types.iter().fold("1".to_owned(), |words, it| {
        format!("{ILP}::lcm({words}, <{it} as {ILP}::Stage>::WORDS)")
    });
    let shapes = numbered(&|_, it| format!("{ILP}::stage::shape::<{it}>()"), ", ");
    let parameters = numbered(&|at, it| format!("stage_{at}: {it}"), ", ");
    let names = numbered(&|at, _| format!("stage_{at}"), ", ");
    let begin = numbered(
        &|at, it| format!("        <{it} as {ILP}::Stage>::begin(&mut self.stage_{at}, adu);"),
        "\n",
    );
    let unit = |way: &str, at: usize, it: &str| {
        format!(
            "        for part in unit.chunks_exact_mut(<{it} as {ILP}::Stage>::WORDS) {{\n            <{it} as {ILP}::Stage>::{way}(&mut self.stage_{at}, part);\n        }}"
        )
    };
    let forward = numbered(&|at, it| unit("fwd", at, it), "\n");
    let mut inverse: Vec<String> = types
        .iter()
        .enumerate()
        .map(|(at, it)| unit("inv", at, it))
        .collect();
    inverse.reverse();
    let inverse = inverse.join("\n");
    let run = |way: &str| {
        numbered(
            &|at, it| {
                format!(
                    "            {at} => <{it} as {ILP}::Stage>::{way}(&mut self.stage_{at}, octets),"
                )
            },
            "\n",
        )
    };
    let (forward_run, inverse_run) = (run("fwd_run"), run("inv_run"));
    let finish = numbered(
        &|at, it| {
            format!("            {at} => <{it} as {ILP}::Stage>::finish(&mut self.stage_{at}),")
        },
        "\n",
    );
    let none = "            _ => unreachable!(\"there is no such stage\"),";
    format!(
        "/// Stages in one loop, from the top to the bottom.
{visibility} struct {name} {{
{fields}
}}

impl {name} {{
    /// Words of a unit.
    {visibility} const WORDS: usize = {words};
    const SHAPES: &'static [{ILP}::Shape] = &[{shapes}];

    /// From its stages, the top one first.
    #[must_use]
    {visibility} const fn new({parameters}) -> {name} {{
        const {{ assert!({name}::WORDS <= {ILP}::stage::MAX_UNIT) }};
        {name} {{ {names} }}
    }}
}}

#[allow(clippy::manual_memcpy)]
impl {ILP}::Pipeline for {name} {{
    #[inline(always)]
    fn shapes(&self) -> &[{ILP}::Shape] {{
        {name}::SHAPES
    }}
    #[inline(always)]
    fn unit_words(&self) -> usize {{
        {name}::WORDS
    }}
    fn begin(&mut self, adu: u64) {{
{begin}
    }}
    #[inline(always)]
    fn fwd_unit(&mut self, unit: &mut [u32]) {{
        let unit = unit.first_chunk_mut::<{{ {name}::WORDS }}>().expect(\"a whole unit\");
{forward}
    }}
    #[inline(always)]
    fn inv_unit(&mut self, unit: &mut [u32]) {{
        let unit = unit.first_chunk_mut::<{{ {name}::WORDS }}>().expect(\"a whole unit\");
{inverse}
    }}
    fn fwd_run(&mut self, stage: usize, octets: &mut [u8]) {{
        match stage {{
{forward_run}
{none}
        }}
    }}
    fn inv_run(&mut self, stage: usize, octets: &mut [u8]) {{
        match stage {{
{inverse_run}
{none}
        }}
    }}
    fn finish(&mut self, stage: usize) -> [u32; {ILP}::stage::MAX_RESULT] {{
        match stage {{
{finish}
{none}
        }}
    }}
    #[inline]
    fn fwd_fused(&mut self, from: &[u8], to: &mut [u8]) {{
        let places = to.chunks_exact_mut(4 * {name}::WORDS);
        for (octets, place) in from.chunks_exact(4 * {name}::WORDS).zip(places) {{
            let mut unit = [0; {name}::WORDS];
            {ILP}::stage::load(octets, &mut unit);
            {ILP}::Pipeline::fwd_unit(self, &mut unit);
            {ILP}::stage::store(&unit, place);
        }}
    }}
}}
"
    )
}
