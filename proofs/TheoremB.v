(* Theorem B of docs/theory/: the listwise perceptron, for NDCG, NDCG@k and AP. *)
From Perceptrank Require Export Perceptron Measures.

Section Run.
Variables (r : run) (T : nat).
Notation d := (features r).
Notation m := (documents r).
Notation s t := (scores r t (w r t)).

(* The places of the documents follow the scores; ties are broken in any way. *)
Definition ranks_by_score (rank : nat -> nat -> nat) : Prop := forall t, (t < T)%nat ->
  permutes (m t) (rank t)
  /\ forall i j, (i < m t)%nat -> (j < m t)%nat -> s t j < s t i -> (rank t i < rank t j)%nat.

(* A lower-graded document scores no less than i, and is above it if ties are in the worst order. *)
Definition beaten (t i : nat) : Prop := exists j, (j < m t)%nat /\ (grade r t j < grade r t i)%nat /\ s t i <= s t j.

(* Each beaten document of positive weight is moved against lower-graded documents above it, in any proportions. *)
Definition listwise_perceptron : Prop :=
  0 < eta r
  /\ (forall k, (k < d)%nat -> w r 0%nat k = 0)
  /\ (forall t k, (t < T)%nat -> (k < d)%nat -> w r (S t) k = w r t k + eta r * step r t k)
  /\ (forall t i, (t < T)%nat -> (i < m t)%nat -> active r t i = true <-> 0 < v r t i /\ beaten t i)
  /\ (forall t i, (t < T)%nat -> (i < m t)%nat -> active r t i = true ->
      sum (m t) (q r t i) = 1
      /\ forall j, (j < m t)%nat -> 0 <= q r t i j
         /\ (0 < q r t i j -> (grade r t j < grade r t i)%nat /\ s t i <= s t j)).

Definition weighted : Prop := forall t, (t < T)%nat ->
  (forall i, (i < m t)%nat -> 0 <= v r t i) /\ sum (m t) (v r t) <= 1.

Lemma perceptron_follows_the_rule : listwise_perceptron -> weighted -> follows_the_rule r T.
Proof.
  intros (E & W0 & Wt & Ha & Hq) V. repeat split; auto.
  - intros t i HT HI. now apply V.
  - intros t HT. now apply V.
  - now apply Hq.
  - now apply (Hq t i H H0 H1).
  - intro P. now apply (Hq t i H H0 H1).
Qed.

Lemma steps_do_not_agree t : listwise_perceptron -> weighted -> (t < T)%nat ->
  dot d (w r t) (step r t) <= 0 * mass r t.
Proof.
  intros L V HT. pose proof (perceptron_follows_the_rule L V) as rule. destruct L as (_ & _ & _ & _ & Hq).
  rewrite dot_comm, dot_step, Rmult_0_l. apply sum_nonpos; intros i HI.
  pose proof (active_weight_nonneg r T rule t i HT HI) as A. specialize (Hq t i HT HI).
  destruct (active r t i); [|lra]. destruct Hq as (_ & Q); [easy|].
  assert (sum (m t) (fun j => q r t i j * dot d (vminus (X r t i) (X r t j)) (w r t)) <= 0); [|nra].
  apply sum_nonpos; intros j HJ. destruct (Q j HJ) as (P & G).
  destruct P as [P|Z]; [|rewrite <- Z; lra]. apply G in P as (_ & Le).
  unfold scores in Le. rewrite dot_minus, !(dot_comm _ (X r t _)). destruct (Q j HJ). nra.
Qed.

(* Theorem B but for the measure: what S is at most *)
Theorem mass_of_the_listwise_perceptron D : listwise_perceptron -> weighted -> within_diameter r T D ->
  (forall u, total_mass r T <= sharp_bound (dot d u u * (D * D)) (total_surrogate r T u))
  /\ (forall ws gamma, 0 < gamma -> norm d ws <= 1 -> has_margin r T ws gamma ->
      total_mass r T <= D * D / (gamma * gamma)).
Proof.
  intros L V HD. pose proof (perceptron_follows_the_rule L V) as rule.
  assert (C : D * D + 2 * 0 / eta r = D * D) by (unfold Rdiv; ring).
  split.
  - intro u. rewrite <- C. apply lemma_2d; auto; [lra|]. intros; now apply steps_do_not_agree.
  - intros ws gamma G N H. rewrite <- C. apply (lemma_2d_margin r T D 0 ws gamma); auto; [lra|].
    intros; now apply steps_do_not_agree.
Qed.

Lemma outranked_weight_moves t rank : listwise_perceptron -> weighted -> ranks_by_score rank -> (t < T)%nat ->
  outranked_weight (m t) (grade r t) (rank t) (v r t) <= mass r t.
Proof.
  intros (_ & _ & _ & Ha & _) V Rk HT. apply sum_le; intros i HI.
  destruct (V t HT) as (V0 & _). specialize (V0 i HI). specialize (Ha t i HT HI).
  destruct (outranked (m t) (grade r t) (rank t) i) eqn:O; [|destruct (active r t i); lra].
  apply outranked_spec in O as (j & J & G & Rj).
  destruct (active r t i) eqn:A; [lra|]. destruct V0 as [V0|V0]; [exfalso|lra].
  assert (false = true); [|easy]. apply Ha. split; [easy|]. exists j. repeat split; auto.
  destruct (Rle_dec (s t i) (s t j)) as [|N]; [easy|exfalso].
  destruct (Rk t HT) as (_ & Sc). specialize (Sc i j HI J). assert (rank t i < rank t j)%nat by (apply Sc; lra). lia.
Qed.

Lemma diameter_of_radius R : (forall t i, (t < T)%nat -> (i < m t)%nat -> norm d (X r t i) <= R) -> 0 <= R ->
  within_diameter r T (2 * R).
Proof.
  intros H R0. split; [lra|]. intros t i j HT HI HJ _.
  pose proof (H t i HT HI). pose proof (H t j HT HJ).
  assert (N : norm d (fun k => (-1) * X r t j k) = norm d (X r t j)).
  { unfold norm. f_equal. unfold dot. apply sum_ext; intros; ring. }
  rewrite (norm_ext d _ (fun k => X r t i k + (-1) * X r t j k)) by (intros; unfold vminus; ring).
  eapply Rle_trans; [apply norm_triangle|]. rewrite N. lra.
Qed.

End Run.

Lemma largest_share_grows k n n' : (1 <= n <= n')%nat -> 0 <= largest_share k n <= largest_share k n'.
Proof.
  intros (L1 & L). assert (E : forall n, (1 <= n)%nat -> ln 2 / ln (INR n + 1) = log_discount (n - 1)).
  { intros p P. unfold log_discount. rewrite minus_INR by lia. simpl (INR 1).
    now replace (INR p - 1 + 2) with (INR p + 1) by ring. }
  assert (O : forall p, log_discount p <= 1) by (intro; rewrite <- log_discount_first; apply log_discount_falls; lia).
  unfold largest_share. rewrite (E n), (E n') by lia.
  pose proof (O (n - 1)%nat). pose proof (log_discount_pos (n' - 1)). pose proof (log_discount_pos (n - 1)).
  assert (log_discount (n' - 1) <= log_discount (n - 1)) by (apply log_discount_falls; lia).
  destruct (Nat.leb_spec n k), (Nat.leb_spec n' k); lra || lia.
Qed.

Lemma ap_share_grows n n' : (1 <= n <= n')%nat -> 0 <= ap_share n <= ap_share n'.
Proof.
  intros (L1 & L). unfold ap_share. apply le_INR in L, L1. simpl in L1.
  assert (/ INR n' <= / INR n) by (apply Rinv_le_contravar; lra).
  assert (/ INR n <= 1) by (rewrite <- Rinv_1; apply Rinv_le_contravar; lra). lra.
Qed.

Lemma no_documents_no_dcg k m grade p : 0 < dcg_at k m grade p -> (1 <= m)%nat.
Proof. destruct m; [unfold dcg_at, dcg_of; simpl; lra|lia]. Qed.

Lemma no_documents_no_relevant m grade : relevant m grade <> nil -> (1 <= m)%nat.
Proof. destruct m; [easy|lia]. Qed.

(* What a query with at most n documents loses, by Lemmas 1 and 1' *)
Lemma ndcg_round k m n grade ideal rank v : (m <= n)%nat -> permutes m rank -> by_grade m grade ideal ->
  0 < dcg_at k m grade ideal -> ndcg_weights k m grade v ->
  1 - ndcg_at k m grade ideal rank <= largest_share k n * outranked_weight m grade rank v.
Proof.
  intros N P I Z W. destruct (lemma_1_ndcg k m grade ideal rank v P I Z W) as (L & _).
  pose proof (largest_share_grows k m n (conj (no_documents_no_dcg _ _ _ _ Z) N)).
  destruct (ndcg_weights_sum _ _ _ _ _ W I Z) as (V0 & _).
  assert (0 <= outranked_weight m grade rank v)
    by (apply sum_nonneg; intros i HI; destruct (outranked _ _ _ _); [auto|lra]). nra.
Qed.

Lemma ap_round m n grade rank v : (m <= n)%nat -> permutes m rank -> (forall i, (i < m)%nat -> (grade i <= 1)%nat) ->
  relevant m grade <> nil -> (forall i, (i < m)%nat -> v i = ap_weight m grade i) ->
  1 - ap m grade rank <= ap_share n * outranked_weight m grade rank v.
Proof.
  intros N P G R W. destruct (lemma_1_ap m grade rank P G R) as (L & _).
  pose proof (ap_share_grows m n (conj (no_documents_no_relevant _ _ R) N)).
  destruct (ap_weights_sum _ _ R) as (V0 & _).
  replace (outranked_weight m grade rank v) with (outranked_weight m grade rank (ap_weight m grade))
    by (apply sum_ext; intros i I; destruct (outranked _ _ _ _); [now rewrite W|easy]).
  assert (0 <= outranked_weight m grade rank (ap_weight m grade))
    by (apply sum_nonneg; intros i HI; destruct (outranked _ _ _ _); [auto|lra]). nra.
Qed.

(* Theorem B for NDCG@k. Queries have at most n documents; without a cut-off, k is at least n. *)
Theorem theorem_B_ndcg r T k n D (ideal rank : nat -> nat -> nat) :
  listwise_perceptron r T ->
  (forall t, (t < T)%nat -> (documents r t <= n)%nat
    /\ by_grade (documents r t) (grade r t) (ideal t)
    /\ 0 < dcg_at k (documents r t) (grade r t) (ideal t)
    /\ ndcg_weights k (documents r t) (grade r t) (v r t)) ->
  ranks_by_score r T rank -> within_diameter r T D ->
  sum T (fun t => 1 - ndcg_at k (documents r t) (grade r t) (ideal t) (rank t)) <= largest_share k n * total_mass r T
  /\ (forall u, total_mass r T <= sharp_bound (dot (features r) u u * (D * D)) (total_surrogate r T u))
  /\ (forall ws gamma, 0 < gamma -> norm (features r) ws <= 1 -> has_margin r T ws gamma ->
      total_mass r T <= D * D / (gamma * gamma)).
Proof.
  intros P Q Rk HD.
  assert (V : weighted r T).
  { intros t HT. destruct (Q t HT) as (_ & I & Z & W). destruct (ndcg_weights_sum _ _ _ _ _ W I Z) as (V0 & V1). split; [easy|lra]. }
  split; [|now apply mass_of_the_listwise_perceptron].
  unfold total_mass. rewrite <- sum_scal. apply sum_le; intros t HT. destruct (Q t HT) as (N & I & Z & W).
  destruct (Rk t HT) as (Pm & _).
  eapply Rle_trans; [now apply (ndcg_round k _ n _ _ _ (v r t))|].
  apply Rmult_le_compat_l; [|now apply (outranked_weight_moves r T)].
  now apply (largest_share_grows k n n (conj (Nat.le_trans _ _ _ (no_documents_no_dcg _ _ _ _ Z) N) (le_n n))).
Qed.

(* Theorem B for AP *)
Theorem theorem_B_ap r T n D (rank : nat -> nat -> nat) :
  listwise_perceptron r T ->
  (forall t, (t < T)%nat -> (documents r t <= n)%nat
    /\ (forall i, (i < documents r t)%nat -> (grade r t i <= 1)%nat)
    /\ relevant (documents r t) (grade r t) <> nil
    /\ (forall i, (i < documents r t)%nat -> v r t i = ap_weight (documents r t) (grade r t) i)) ->
  ranks_by_score r T rank -> within_diameter r T D ->
  sum T (fun t => 1 - ap (documents r t) (grade r t) (rank t)) <= ap_share n * total_mass r T
  /\ (forall u, total_mass r T <= sharp_bound (dot (features r) u u * (D * D)) (total_surrogate r T u))
  /\ (forall ws gamma, 0 < gamma -> norm (features r) ws <= 1 -> has_margin r T ws gamma ->
      total_mass r T <= D * D / (gamma * gamma)).
Proof.
  intros P Q Rk HD.
  assert (V : weighted r T).
  { intros t HT. destruct (Q t HT) as (_ & _ & R & W). destruct (ap_weights_sum _ _ R) as (V0 & V1). split.
    - intros i I. now rewrite W.
    - rewrite (sum_ext _ _ _ W). lra. }
  split; [|now apply mass_of_the_listwise_perceptron].
  unfold total_mass. rewrite <- sum_scal. apply sum_le; intros t HT. destruct (Q t HT) as (N & G & R & W).
  destruct (Rk t HT) as (Pm & _).
  eapply Rle_trans; [now apply (ap_round _ n _ _ (v r t))|].
  apply Rmult_le_compat_l; [|now apply (outranked_weight_moves r T)].
  now apply (ap_share_grows n n (conj (Nat.le_trans _ _ _ (no_documents_no_relevant _ _ R) N) (le_n n))).
Qed.

(* The hypotheses can be met: on every stream of queries there is such a learner, whatever the weights and the rate. *)
Section Existence.
Variables (d : nat) (docs : nat -> nat) (x : nat -> nat -> vec) (g : nat -> nat -> nat) (u : nat -> nat -> R) (rate : R).

Fixpoint first (n : nat) (p : nat -> bool) : nat :=
  match n with O => O | S k => let f := first k p in if f =? k then (if p k then k else S k) else f end.

Lemma first_spec n p : (first n p <= n)%nat /\ (first n p < n -> p (first n p) = true)%nat
  /\ (forall j, (j < n)%nat -> p j = true -> first n p < n)%nat.
Proof.
  induction n as [|n (L & P & F)]; simpl; [repeat split; lia|].
  destruct (Nat.eqb_spec (first n p) n) as [E|N].
  - destruct (p n) eqn:Pn; repeat split; auto; try lia. intros j J Pj.
    destruct (Nat.eq_dec j n) as [->|]; [congruence|]. specialize (F j ltac:(lia) Pj). lia.
  - repeat split; try lia. intro. apply P. lia.
Qed.

Definition beats (w : vec) (t i j : nat) : bool :=
  Nat.ltb (g t j) (g t i) && if Rle_dec (dot d w (x t i)) (dot d w (x t j)) then true else false.

Lemma beats_spec w t i j : beats w t i j = true <-> (g t j < g t i)%nat /\ dot d w (x t i) <= dot d w (x t j).
Proof.
  unfold beats. rewrite Bool.andb_true_iff, Nat.ltb_lt. destruct (Rle_dec _ _); intuition easy.
Qed.

Definition moves (w : vec) (t i : nat) : bool :=
  (if Rlt_dec 0 (u t i) then true else false) && Nat.ltb (first (docs t) (beats w t i)) (docs t).
Definition onto (w : vec) (t i j : nat) : R := if Nat.eqb j (first (docs t) (beats w t i)) then 1 else 0.

Fixpoint path (t : nat) : vec :=
  match t with
  | O => fun _ => 0
  | S t => fun k => path t k + rate * sum (docs t) (fun i => (if moves (path t) t i then u t i else 0) *
      sum (docs t) (fun j => onto (path t) t i j * vminus (x t i) (x t j) k))
  end.

Definition learned : run :=
  Run d docs x g u (fun t => moves (path t) t) (fun t => onto (path t) t) rate path.

Theorem listwise_perceptron_exists : 0 < rate -> forall T, listwise_perceptron learned T.
Proof.
  intros E T. split; [easy|]. split; [easy|]. split; [easy|]. split; simpl; intros t i HT HI.
  - destruct (first_spec (docs t) (beats (path t) t i)) as (_ & P & F).
    unfold moves. rewrite Bool.andb_true_iff, Nat.ltb_lt. unfold beaten, scores; simpl. split.
    + intros (V & L). split; [now destruct (Rlt_dec _ _)|]. specialize (P L). apply beats_spec in P. eauto.
    + intros (V & j & J & B). split; [now destruct (Rlt_dec _ _)|]. apply (F j J), beats_spec, B.
  - unfold moves. rewrite Bool.andb_true_iff, Nat.ltb_lt. intros (_ & L).
    destruct (first_spec (docs t) (beats (path t) t i)) as (_ & P & _). specialize (P L). unfold onto, scores; simpl. split.
    + rewrite (sum_only _ _ (first (docs t) (beats (path t) t i))); [now rewrite Nat.eqb_refl| |easy].
      intros j _ N. destruct (Nat.eqb_spec j (first (docs t) (beats (path t) t i))); [easy|easy].
    + intros j _. destruct (Nat.eqb_spec j (first (docs t) (beats (path t) t i))) as [->|]; [|lra].
      split; [lra|]. intros _. now apply beats_spec.
Qed.
End Existence.
