//! The rules that can be in force.

use std::sync::OnceLock;

#[derive(Clone, Debug)]
pub struct Expert {
    pub window: f64,
    pub fifo: bool,
    pub reach: f64,
    pub to_protected: bool,
    pub coin: u64,
    pub rotate: bool,
    pub protected: f64,
}

#[derive(Clone, Debug)]
pub struct Params {
    pub experts: Vec<Expert>,
    pub start: usize,
    pub most: usize,
    pub memory: f64,
    pub cost: f64,
    pub margin: f64,
    pub tie: bool,
    pub warm: u32,
    pub epoch: f64,
    pub touch: u32,
    pub clip: f64,
}

pub fn params() -> &'static Params {
    static P: OnceLock<Params> = OnceLock::new();
    P.get_or_init(|| {
        let text = std::env::var("EXP").unwrap_or_default();
        let mut p = Params {
            experts: vec![],
            start: 0,
            most: 256,
            memory: 0.95,
            cost: 0.1,
            margin: 0.005,
            tie: true,
            warm: 0,
            epoch: 1.0,
            touch: 0,
            clip: 0.0,
        };
        for part in text.split_whitespace() {
            let (k, v) = part.split_once('=').unwrap();
            match k {
                // window,fifo,reach,to,coin,rotate
                "e" => {
                    let f: Vec<f64> = v.split(',').map(|x| x.parse().unwrap()).collect();
                    p.experts.push(Expert {
                        window: f[0],
                        fifo: f[1] != 0.0,
                        reach: f[2],
                        to_protected: f[3] != 0.0,
                        coin: f[4] as u64,
                        rotate: f[5] != 0.0,
                        protected: f.get(6).copied().unwrap_or(0.8),
                    });
                }
                "start" => p.start = v.parse().unwrap(),
                "most" => p.most = v.parse().unwrap(),
                "memory" => p.memory = v.parse().unwrap(),
                "cost" => p.cost = v.parse().unwrap(),
                "margin" => p.margin = v.parse().unwrap(),
                "epoch" => p.epoch = v.parse().unwrap(),
                "tie" => p.tie = v == "1",
                "warm" => p.warm = v.parse().unwrap(),
                "clip" => p.clip = v.parse().unwrap(),
                "touch" => p.touch = v.parse().unwrap(),
                _ => panic!("{k}"),
            }
        }
        if p.experts.is_empty() {
            p.experts.push(Expert { window: 0.1, fifo: false, reach: 1.0, to_protected: true, coin: 2, rotate: false, protected: 0.8 });
        }
        p
    })
}
