(* Round-to-nearest-even with gradual underflow, proved equal to Flocq's, and from it the codes at and
   next to every boundary of a format.  boundaries.sh prints the tables that the tests read.

   Magnitudes only: the sign is kept apart, and what is past the largest code becomes the largest. *)
Require Import Reals ZArith Lia List Bool.
From Flocq Require Import Core Digits Bracket Round Operations.
Import ListNotations.
Open Scope Z_scope.

(* m * 2^e, rounded to prec digits with no digit below 2^emin. *)
Definition rne emin prec (m e : Z) : Z * Z :=
  let '(m', e', l) := truncate radix2 (FLT_exp emin prec) (m, e, loc_Exact) in
  (cond_incr (round_N (negb (Z.even m')) l) m', e').

Theorem rne_correct emin prec m e : Prec_gt_0 prec -> 0 <= m ->
  F2R (Float radix2 (fst (rne emin prec m e)) (snd (rne emin prec m e)))
  = round radix2 (FLT_exp emin prec) ZnearestE (F2R (Float radix2 m e)).
Proof.
  intros P Hm. unfold rne.
  rewrite (round_trunc_NE_correct radix2 (FLT_exp emin prec) _ m e loc_Exact).
  - destruct (truncate radix2 (FLT_exp emin prec) (m, e, loc_Exact)) as ((m', e'), l'). easy.
  - now apply F2R_ge_0.
  - now constructor.
  - now right.
Qed.

(* A format: exponent of its least value, fraction bits, largest code. *)
Section Format.
Variables emin fraction largest : Z.

Definition value (c : Z) : Z * Z :=
  let E := c / 2 ^ fraction in let M := c mod 2 ^ fraction in
  if E =? 0 then (M, emin) else (M + 2 ^ fraction, emin + E - 1).

(* The code of m * 2^e, which is representable. *)
Definition pack (m e : Z) : Z :=
  let N := if e <? emin then m / 2 ^ (emin - e) else m * 2 ^ (e - emin) in
  if N <? 2 ^ fraction then N
  else let d := Z.log2 N in (d - fraction + 1) * 2 ^ fraction + N / 2 ^ (d - fraction) - 2 ^ fraction.

Definition encode (m e : Z) : Z :=
  let '(m', e') := rne emin (fraction + 1) m e in Z.min largest (pack m' e').
End Format.

Definition fp32_value := value (-149) 23.
Definition fp32_bits := pack (-149) 23.

(* fp32 bits of the midpoint of codes c and c + 1. *)
Definition midpoint emin fraction c : Z :=
  let '(m1, e1) := value emin fraction c in let '(m2, e2) := value emin fraction (c + 1) in
  let e := Z.min e1 e2 in
  fp32_bits (m1 * 2 ^ (e1 - e) + m2 * 2 ^ (e2 - e)) (e - 1).

Definition at_bits emin fraction largest b :=
  let '(m, e) := fp32_value b in encode emin fraction largest m e.

Definition row emin fraction largest c :=
  let b := midpoint emin fraction c in
  [b; at_bits emin fraction largest (b - 1); at_bits emin fraction largest b;
   at_bits emin fraction largest (b + 1)].

Fixpoint upto (n : nat) (k : Z) := match n with O => [] | S n => k :: upto n (k + 1) end.
Definition rows emin fraction largest codes := map (row emin fraction largest) codes.
Definition all emin fraction largest :=
  rows emin fraction largest (upto (Z.to_nat largest + 1) 0).

(* The formats with many codes: those next to a change of the exponent, and one in between. *)
Definition some emin fraction largest :=
  let turn E := let c := E * 2 ^ fraction in [c - 2; c - 1; c; c + 1; c + 77] in
  let turns := largest / 2 ^ fraction in
  rows emin fraction largest
    (filter (fun c => (0 <=? c) && (c <=? largest)) (flat_map turn (upto (Z.to_nat turns + 2) 0))).
