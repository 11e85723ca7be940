mod trace;
fn main() {
    for r in trace::Records::open(
        "x",
        std::io::BufReader::new(std::fs::File::open(std::env::args().nth(1).unwrap()).unwrap()),
    )
    .unwrap()
    {
        println!("{:?}", r);
    }
}
