//! Every rank gives its number, every rank gets the sum, from Rust without a crate.
//!
//!   rustc -O examples/rust_allreduce/main.rs -o rust_allreduce -L LIB -l rueda -C link-arg=-Wl,-rpath,LIB
//!   hvdrun -np 2 rust_allreduce

mod rueda;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let session = rueda::Session::init()?;
    let mut values = vec![session.rank() as f32; 100_000];
    for step in 0..3 {
        values.fill(session.rank() as f32 + step as f32);
        session.sum("values", &mut values)?;
    }
    let ranks = session.size();
    let expected = (ranks * (ranks - 1) / 2 + 2 * ranks) as f32;
    if let Some(wrong) = values.iter().position(|&value| value != expected) {
        return Err(format!("element {wrong} is {}, not {expected}", values[wrong]).into());
    }
    println!("rank {} of {}: the ranks add up to {}", session.rank(), ranks, values[0]);
    Ok(())
}
