(* Theorems A, A', C and C' of docs/theory/: learners that ask for a margin. *)
From Perceptrank Require Export TheoremB.
Require Import Bool.

Section Run.
(* Which rounds may have an update, and the margin that is asked for in each *)
Variables (r : run) (T : nat) (updated : nat -> bool) (slack : nat -> R).
Notation d := (features r).
Notation m := (documents r).
Notation s t := (scores r t (w r t)).

(* j is graded below i, and above it or not far enough below. *)
Definition violates (t i j : nat) : Prop := (grade r t j < grade r t i)%nat /\ (s t i <= s t j \/ s t i - s t j < slack t).

Definition margin_perceptron : Prop :=
  0 < eta r
  /\ (forall k, (k < d)%nat -> w r 0%nat k = 0)
  /\ (forall t k, (t < T)%nat -> (k < d)%nat -> w r (S t) k = w r t k + eta r * step r t k)
  /\ (forall t i, (t < T)%nat -> (i < m t)%nat -> active r t i = true <->
      updated t = true /\ 0 < v r t i /\ exists j, (j < m t)%nat /\ violates t i j)
  /\ (forall t i, (t < T)%nat -> (i < m t)%nat -> active r t i = true ->
      sum (m t) (q r t i) = 1
      /\ forall j, (j < m t)%nat -> 0 <= q r t i j /\ (0 < q r t i j -> violates t i j)).

(* Algorithm 2, and "top": all of q_i is on best-scored documents graded below i. *)
Definition moves_against_the_best : Prop := forall t i j j', (t < T)%nat -> (i < m t)%nat -> (j < m t)%nat -> (j' < m t)%nat ->
  active r t i = true -> 0 < q r t i j -> (grade r t j' < grade r t i)%nat -> s t j' <= s t j.

Definition is_beaten (t i : nat) : bool :=
  existsb (fun j => (grade r t j <? grade r t i) && if Rle_dec (s t i) (s t j) then true else false) (seq 0 (m t)).

(* M_t: the part of V_t that outranked documents have *)
Definition outranked_mass (t : nat) : R :=
  sum (m t) (fun i => if active r t i && is_beaten t i then v r t i else 0).

Lemma is_beaten_spec t i : is_beaten t i = true <-> beaten r t i.
Proof.
  unfold is_beaten, beaten. rewrite existsb_exists. split.
  - intros (j & I & H). apply in_seq in I. apply andb_true_iff in H as (G & H). apply Nat.ltb_lt in G.
    exists j. destruct (Rle_dec _ _); [|easy]. repeat split; auto. lia.
  - intros (j & J & G & H). exists j. rewrite in_seq, andb_true_iff, Nat.ltb_lt. destruct (Rle_dec _ _); [|easy].
    repeat split; auto; lia.
Qed.

Hypothesis learner : margin_perceptron.
Hypothesis weights : weighted r T.

Lemma margin_perceptron_follows_the_rule : follows_the_rule r T.
Proof.
  destruct learner as (E & W0 & Wt & Ha & Hq). repeat split; auto.
  - intros t i HT HI. now apply weights.
  - intros t HT. now apply weights.
  - now apply Hq.
  - now apply (Hq t i H H0 H1).
  - intro P. now apply (Hq t i H H0 H1).
Qed.

Lemma outranked_mass_is_part t : (t < T)%nat -> outranked_mass t <= mass r t.
Proof.
  intro HT. apply sum_le; intros i HI. destruct (weights t HT) as (V & _). specialize (V i HI).
  destruct (active r t i), (is_beaten t i); simpl; lra.
Qed.

(* A step against violators agrees with w by at most `most i` for each document i. *)
Lemma step_agrees t (most : nat -> R) : (t < T)%nat ->
  (forall i j, (i < m t)%nat -> (j < m t)%nat -> active r t i = true -> 0 < q r t i j -> s t i - s t j <= most i) ->
  dot d (w r t) (step r t) <= sum (m t) (fun i => (if active r t i then v r t i else 0) * most i).
Proof.
  intros HT H. pose proof margin_perceptron_follows_the_rule as rule. destruct learner as (_ & _ & _ & _ & Hq).
  rewrite dot_comm, dot_step. apply sum_le; intros i HI.
  pose proof (active_weight_nonneg r T rule t i HT HI). specialize (Hq t i HT HI). specialize (H i).
  destruct (active r t i); [|lra]. destruct Hq as (Q1 & Q); [easy|]. apply Rmult_le_compat_l; [easy|].
  replace (most i) with (sum (m t) (fun j => most i * q r t i j)) by (rewrite sum_scal, Q1; ring).
  apply sum_le; intros j HJ. destruct (Q j HJ) as (P & _). destruct P as [P|Z]; [|rewrite <- Z; lra].
  specialize (H j HI HJ eq_refl P). unfold scores in H. rewrite dot_minus, !(dot_comm _ (X r t _)), Rmult_comm.
  apply Rmult_le_compat_r; lra.
Qed.

Section AtMost.
Variable margin : R.
Hypothesis slack_at_most : 0 <= margin /\ forall t, (t < T)%nat -> slack t <= margin.

Lemma violators_within t i j : (t < T)%nat -> violates t i j -> s t i - s t j <= margin.
Proof. intros HT (_ & H). destruct slack_at_most as (M0 & M). specialize (M t HT). destruct H; lra. Qed.

Lemma step_within_margin t : (t < T)%nat -> dot d (w r t) (step r t) <= margin * mass r t.
Proof.
  intro HT. unfold mass. rewrite <- sum_scal.
  rewrite (sum_ext (m t) _ (fun i => (if active r t i then v r t i else 0) * margin)) by (intros; ring).
  apply step_agrees; auto. intros i j HI HJ A P. apply violators_within; auto.
  destruct learner as (_ & _ & _ & _ & Hq). now apply (Hq t i HT HI A).
Qed.

Lemma outranked_add_nothing t : moves_against_the_best -> (t < T)%nat ->
  dot d (w r t) (step r t) <= margin * (mass r t - outranked_mass t).
Proof.
  intros Best HT. unfold mass, outranked_mass. rewrite <- sum_minus, <- sum_scal.
  eapply Rle_trans; [apply (step_agrees t (fun i => if is_beaten t i then 0 else margin) HT)|].
  - intros i j HI HJ A P. destruct (is_beaten t i) eqn:B.
    + apply is_beaten_spec in B as (j' & J' & G & Le). specialize (Best t i j j' HT HI HJ J' A P G). lra.
    + apply violators_within; auto. destruct learner as (_ & _ & _ & _ & Hq). now apply (Hq t i HT HI A).
  - apply sum_le; intros i _. destruct (active r t i), (is_beaten t i); simpl; lra.
Qed.

(* Theorem A but for the measure: any violators, a margin of at most `margin` *)
Theorem theorem_A D : within_diameter r T D ->
  (forall u, total_mass r T <= sharp_bound (dot d u u * (D * D + 2 * margin / eta r)) (total_surrogate r T u))
  /\ (forall ws gamma, 0 < gamma -> norm d ws <= 1 -> has_margin r T ws gamma ->
      total_mass r T <= (D * D + 2 * margin / eta r) / (gamma * gamma)).
Proof.
  intro HD. pose proof margin_perceptron_follows_the_rule. destruct slack_at_most. split.
  - intro u. apply lemma_2d; auto. apply step_within_margin.
  - intros ws gamma G N H'. apply (lemma_2d_margin r T D margin ws gamma); auto. apply step_within_margin.
Qed.

(* Theorem A' but for the measure: the best-scored violators *)
Theorem theorem_A_prime D : within_diameter r T D -> 0 < D -> moves_against_the_best ->
  let beta := 2 * margin / (eta r * (D * D)) in let M := sum T outranked_mass in
  (forall u, let K := dot d u u * (D * D) in let L := total_surrogate r T u in
    (beta <= sqrt (1 + 4 * L / K) -> M <= sharp_bound K L)
    /\ (sqrt (1 + 4 * L / K) < beta -> M <= (1 + beta) / beta * (L + (1 + beta) / 4 * K)))
  /\ (forall ws gamma, 0 < gamma -> norm d ws <= 1 -> has_margin r T ws gamma ->
      (beta <= 1 -> M <= D * D / (gamma * gamma))
      /\ (1 < beta -> M <= (1 + beta) * (1 + beta) / (4 * beta) * (D * D / (gamma * gamma)))).
Proof.
  intros HD D0 Best beta M. pose proof margin_perceptron_follows_the_rule. destruct slack_at_most. split.
  - intro u. apply (lemma_2prime r T D margin outranked_mass); auto.
    + apply outranked_mass_is_part.
    + intros; now apply outranked_add_nothing.
  - intros ws gamma G N H'. apply (lemma_2prime_margin r T D margin outranked_mass) with (ws := ws); auto.
    + apply outranked_mass_is_part.
    + intros; now apply outranked_add_nothing.
Qed.
End AtMost.

(* The relative margin: rho eta times the mean of |z_s|^2 / V_s^2 over earlier updates *)
Definition mean_reach (t : nat) : R :=
  sum t (fun s => if Rlt_dec 0 (mass r s) then dot d (step r s) (step r s) / (mass r s * mass r s) else 0)
  / sum t (fun s => if Rlt_dec 0 (mass r s) then 1 else 0).
Definition relative_margin (rho : R) : Prop := 0 <= rho /\ forall t, (t < T)%nat -> slack t = rho * eta r * mean_reach t.

Lemma mean_reach_at_most D t : within_diameter r T D -> (t < T)%nat -> mean_reach t <= D * D.
Proof.
  intros HD HT. pose proof margin_perceptron_follows_the_rule as rule. unfold mean_reach.
  set (n := sum t (fun s => if Rlt_dec 0 (mass r s) then 1 else 0)).
  assert (N0 : 0 <= n) by (apply sum_nonneg; intros; destruct (Rlt_dec _ _); lra).
  assert (H : sum t (fun s => if Rlt_dec 0 (mass r s) then dot d (step r s) (step r s) / (mass r s * mass r s) else 0)
    <= D * D * n).
  { unfold n. rewrite <- sum_scal. apply sum_le; intros s' HS. destruct (Rlt_dec 0 (mass r s')) as [P|]; [|lra].
    assert (P2 : 0 < mass r s' * mass r s') by nra. rewrite <- norm_square.
    pose proof (lemma_2b r T rule D s' HD ltac:(lia)) as B. pose proof (norm_nonneg d (step r s')).
    apply Rmult_le_reg_l with (mass r s' * mass r s'); [easy|].
    replace (mass r s' * mass r s' * (norm d (step r s') * norm d (step r s') / (mass r s' * mass r s')))
      with (norm d (step r s') * norm d (step r s')) by (field; lra).
    replace (mass r s' * mass r s' * (D * D * 1)) with (D * mass r s' * (D * mass r s')) by ring.
    apply Rmult_le_compat; easy. }
  destruct N0 as [P|Z].
  - apply Rmult_le_reg_r with n; [easy|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  - rewrite <- Z in *. unfold Rdiv. rewrite Rinv_0, Rmult_0_r. nra.
Qed.

Lemma relative_margin_at_most rho D : within_diameter r T D -> relative_margin rho ->
  0 <= rho * eta r * (D * D) /\ forall t, (t < T)%nat -> slack t <= rho * eta r * (D * D).
Proof.
  intros HD (R0 & H). destruct learner as (E & _). assert (0 <= rho * eta r) by nra. split.
  - apply Rmult_le_pos; [easy|nra].
  - intros t HT. rewrite (H t HT). apply Rmult_le_compat_l; [easy|]. now apply mean_reach_at_most.
Qed.

(* Theorem C but for the measure *)
Theorem theorem_C rho D : within_diameter r T D -> relative_margin rho ->
  (forall u, total_mass r T <= sharp_bound (dot d u u * ((1 + 2 * rho) * (D * D))) (total_surrogate r T u))
  /\ (forall ws gamma, 0 < gamma -> norm d ws <= 1 -> has_margin r T ws gamma ->
      total_mass r T <= (1 + 2 * rho) * (D * D) / (gamma * gamma)).
Proof.
  intros HD HR. pose proof (theorem_A _ (relative_margin_at_most rho D HD HR) D HD) as H. destruct learner as (E & _).
  replace (D * D + 2 * (rho * eta r * (D * D)) / eta r) with ((1 + 2 * rho) * (D * D)) in H by (field; lra). exact H.
Qed.

(* Theorem C' but for the measure *)
Theorem theorem_C_prime rho D : within_diameter r T D -> 0 < D -> relative_margin rho -> moves_against_the_best ->
  let beta := 2 * rho in let M := sum T outranked_mass in
  (forall u, let K := dot d u u * (D * D) in let L := total_surrogate r T u in
    (beta <= sqrt (1 + 4 * L / K) -> M <= sharp_bound K L)
    /\ (sqrt (1 + 4 * L / K) < beta -> M <= (1 + beta) / beta * (L + (1 + beta) / 4 * K)))
  /\ (forall ws gamma, 0 < gamma -> norm d ws <= 1 -> has_margin r T ws gamma ->
      (beta <= 1 -> M <= D * D / (gamma * gamma))
      /\ (1 < beta -> M <= (1 + beta) * (1 + beta) / (4 * beta) * (D * D / (gamma * gamma)))).
Proof.
  intros HD D0 HR Best. pose proof (theorem_A_prime _ (relative_margin_at_most rho D HD HR) D HD D0 Best) as H.
  destruct learner as (E & _).
  replace (2 * (rho * eta r * (D * D)) / (eta r * (D * D))) with (2 * rho) in H by (field; nra). exact H.
Qed.

Lemma outranked_weight_is_mass t rank : ranks_by_score r T rank -> (t < T)%nat -> updated t = true ->
  outranked_weight (m t) (grade r t) (rank t) (v r t) <= outranked_mass t.
Proof.
  intros Rk HT Up. destruct learner as (_ & _ & _ & Ha & _). apply sum_le; intros i HI.
  destruct (weights t HT) as (V0 & _). specialize (V0 i HI).
  destruct (outranked (m t) (grade r t) (rank t) i) eqn:O; [|destruct (_ && _); lra].
  apply outranked_spec in O as (j & J & G & Rj). destruct (Rk t HT) as (_ & Sc). specialize (Sc i j HI J).
  assert (Le : s t i <= s t j).
  { destruct (Rle_dec (s t i) (s t j)) as [|N]; [easy|exfalso].
    assert (rank t i < rank t j)%nat by (apply Sc; lra). lia. }
  assert (B : is_beaten t i = true) by (apply is_beaten_spec; exists j; auto).
  destruct V0 as [V0|V0]; [|rewrite <- V0; destruct (_ && _); lra].
  assert (A : active r t i = true) by (apply Ha; auto; repeat split; auto; exists j; unfold violates; auto).
  rewrite A, B. simpl. lra.
Qed.

(* What is lost is at most c_m times the outranked weight that was moved, and so c_m S. *)
Theorem lost_with_a_margin (loss : nat -> R) c rank : ranks_by_score r T rank -> 0 <= c ->
  (forall t, (t < T)%nat -> loss t <= c * outranked_weight (m t) (grade r t) (rank t) (v r t)) ->
  (forall t, (t < T)%nat -> updated t = false -> loss t <= 0) ->
  sum T loss <= c * sum T outranked_mass /\ sum T outranked_mass <= total_mass r T.
Proof.
  intros Rk C HL HN. split; [|apply sum_le; intros; now apply outranked_mass_is_part].
  rewrite <- sum_scal. apply sum_le; intros t HT. destruct (updated t) eqn:Up.
  - eapply Rle_trans; [now apply HL|]. apply Rmult_le_compat_l; [easy|]. now apply outranked_weight_is_mass.
  - eapply Rle_trans; [now apply HN|]. apply Rmult_le_pos; [easy|].
    apply sum_nonneg; intros i HI. destruct (weights t HT) as (V0 & _). specialize (V0 i HI). destruct (_ && _); lra.
Qed.
End Run.

(* NDCG@k; only rounds without a loss may pass without an update. *)
Theorem lost_ndcg r T updated slack k n ideal rank : margin_perceptron r T updated slack -> (1 <= n)%nat ->
  (forall t, (t < T)%nat -> (documents r t <= n)%nat
    /\ by_grade (documents r t) (grade r t) (ideal t)
    /\ 0 < dcg_at k (documents r t) (grade r t) (ideal t)
    /\ ndcg_weights k (documents r t) (grade r t) (v r t)) ->
  ranks_by_score r T rank ->
  (forall t, (t < T)%nat -> updated t = false -> ndcg_at k (documents r t) (grade r t) (ideal t) (rank t) = 1) ->
  sum T (fun t => 1 - ndcg_at k (documents r t) (grade r t) (ideal t) (rank t))
    <= largest_share k n * sum T (outranked_mass r)
  /\ sum T (outranked_mass r) <= total_mass r T.
Proof.
  intros P N1 Q Rk Up.
  assert (V : weighted r T).
  { intros t HT. destruct (Q t HT) as (_ & I & Z & W). destruct (ndcg_weights_sum _ _ _ _ _ W I Z). split; [easy|lra]. }
  apply (lost_with_a_margin r T updated slack P V _ _ rank); auto.
  - now apply (largest_share_grows k n n).
  - intros t HT. destruct (Q t HT) as (N & I & Z & W). destruct (Rk t HT). now apply ndcg_round.
  - intros t HT U. rewrite (Up t HT U). lra.
Qed.

(* AP *)
Theorem lost_ap r T updated slack n rank : margin_perceptron r T updated slack -> (1 <= n)%nat ->
  (forall t, (t < T)%nat -> (documents r t <= n)%nat
    /\ (forall i, (i < documents r t)%nat -> (grade r t i <= 1)%nat)
    /\ relevant (documents r t) (grade r t) <> nil
    /\ (forall i, (i < documents r t)%nat -> v r t i = ap_weight (documents r t) (grade r t) i)) ->
  ranks_by_score r T rank ->
  (forall t, (t < T)%nat -> updated t = false -> ap (documents r t) (grade r t) (rank t) = 1) ->
  sum T (fun t => 1 - ap (documents r t) (grade r t) (rank t)) <= ap_share n * sum T (outranked_mass r)
  /\ sum T (outranked_mass r) <= total_mass r T.
Proof.
  intros P N1 Q Rk Up.
  assert (V : weighted r T).
  { intros t HT. destruct (Q t HT) as (_ & _ & R & W). destruct (ap_weights_sum _ _ R) as (V0 & V1). split.
    - intros i I. now rewrite W.
    - rewrite (sum_ext _ _ _ W). lra. }
  apply (lost_with_a_margin r T updated slack P V _ _ rank); auto.
  - now apply (ap_share_grows n n).
  - intros t HT. destruct (Q t HT) as (N & G & R & W). destruct (Rk t HT). now apply ap_round.
  - intros t HT U. rewrite (Up t HT U). lra.
Qed.
